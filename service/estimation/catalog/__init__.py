"""Use cases about the catalog itself: what it holds."""
