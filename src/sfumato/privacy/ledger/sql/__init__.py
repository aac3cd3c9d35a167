"""The book in a database, through SQLAlchemy Core: SQLite and PostgreSQL."""
