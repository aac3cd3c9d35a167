"""Compare releases of one table: what attackers get from each, and how useful each is."""
