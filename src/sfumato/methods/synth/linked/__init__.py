"""A parent and a child table synthesized together, under one charge."""
