"""Answer a plan: exact aggregates, their noise, the figures computed from them, and errors."""
