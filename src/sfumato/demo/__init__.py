"""A made-up town to show every method on, one section per method."""
