"""Learning from private rows: models of sums and counts that were made in the engine, with noise."""
