"""An answer out: exact aggregates, their noise, the figures made of them and their errors."""
