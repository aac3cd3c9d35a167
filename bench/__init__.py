"""Side-by-side measurements: ours, the peers', and what was aimed at, in one run."""
