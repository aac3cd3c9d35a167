"""Selections: which tables are worth measuring, each a function on a workbench."""
