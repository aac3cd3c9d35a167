"""The client of a server: `sf.connect` gives the methods and objects of `sf.open`, over HTTP."""
