"""Floor 3: families of private methods, one package each."""
