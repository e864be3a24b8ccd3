"""Choosing among deployments: many candidates at once, fronts, rankings and their robustness."""
