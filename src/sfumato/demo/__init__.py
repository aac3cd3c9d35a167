"""A made-up town that shows every method, one section of the demo page per method."""
