"""Seeing the risk in a table: who is unique, who can be re-identified."""
