"""A vault that is elsewhere: the same methods and objects as one at hand, over HTTP."""
