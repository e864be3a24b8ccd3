"""Memory of one model side by side: trained and served, paged and reserved, pruned and whole."""
