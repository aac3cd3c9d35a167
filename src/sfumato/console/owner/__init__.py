"""The pages of a vault's owner: tables, people, budgets, consent and releases."""
