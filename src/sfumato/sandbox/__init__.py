"""Where other people's code may run."""
