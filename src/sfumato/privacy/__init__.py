"""Floor 2: the mathematics of privacy: accounting, noise, mechanisms, estimation, the ledger."""
