"""The console: pages in a browser, one more door over the vault."""
