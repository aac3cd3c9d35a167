"""Floor 1: tables as they are: schemas, engines, files, counting and inspection; no privacy."""
