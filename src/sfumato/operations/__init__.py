"""Floor 4: everything that can be asked of the system, declared once for every door."""
