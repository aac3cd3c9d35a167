"""Where tables live: DuckDB, PostgreSQL, Spark. Engines run SQL and know no privacy."""
