"""Paths of people: private models of them, made-up twins, and how well a twin does their work."""
