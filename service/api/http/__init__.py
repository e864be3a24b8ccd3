"""What every operation shares: bodies, queries, problems, caching, limits, and the contract."""
