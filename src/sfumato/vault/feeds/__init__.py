"""Feeds: standing publications, renewed once for every period with the rows of that period."""
