"""Who agreed to what: a registry of person and purpose, and what questions see because of it."""
