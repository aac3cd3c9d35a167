"""Jobs: long work that outlives the request that asked for it, and the server that began it."""
