"""Learning from private rows: models of noisy sums and counts that an engine made."""
