"""The append-only book of what was spent."""
