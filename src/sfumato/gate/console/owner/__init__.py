"""The pages of a vault's owner: tables, people, consent, releases, and who spent what."""
