"""Feeds: standing questions, answered once for every period on the rows of that period."""
