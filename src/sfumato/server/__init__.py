"""The vault as a service: HTTP routes over the same use cases as the library and the command."""
