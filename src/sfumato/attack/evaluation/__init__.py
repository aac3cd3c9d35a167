"""Evaluate a synthetic table against its original: similarity, copies and what models learn."""
