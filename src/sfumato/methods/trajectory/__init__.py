"""Trajectories: private models, synthetic trajectories, and the utility of these."""
