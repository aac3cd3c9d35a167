"""SQL in: one SELECT is read, rewritten into fewer forms and joined person by person."""
