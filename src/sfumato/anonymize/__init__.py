"""Syntactic release of tables: criteria, costs and searches, three families that combine freely."""
