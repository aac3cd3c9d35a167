"""How values become coarser, one kind of hierarchy per module."""
