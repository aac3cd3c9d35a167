"""Points grouped freely: every class has labels of its own."""
