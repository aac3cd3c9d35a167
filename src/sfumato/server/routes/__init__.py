"""What stands behind the routes: a file of each kind of thing, with its part of the table."""
