"""Accountants: what each kind of event costs, one module per way of counting."""
