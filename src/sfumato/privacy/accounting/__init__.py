"""The mathematics of privacy loss: exact numbers, units, losses, events, composition."""
