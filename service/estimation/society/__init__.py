"""How welcome a site is likely to be in a place."""
