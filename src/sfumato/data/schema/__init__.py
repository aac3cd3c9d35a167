"""What a table is: its columns, roles, domains, hierarchies and privacy unit."""
