"""SQL in, private answer out: parse, check, plan, rewrite, answer."""
