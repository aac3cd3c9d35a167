"""Release data about people safely."""

__version__ = "0.1.0"
