"""The composition root: reading tables, protecting them, answering questions."""
