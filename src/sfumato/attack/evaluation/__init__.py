"""Anyone's synthetic table beside its original: how near it is, and what it gives away.

The owner's tool: it looks at the original without a budget, and what it finds is for the owner.
"""
