"""For tests, ours and others': seeded entropy, the DP auditor, contract suites."""
