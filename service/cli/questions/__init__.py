"""Commands that ask for estimates, comparisons and recommendations."""
