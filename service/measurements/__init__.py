"""Users' measurements as they are kept: added, listed and summed up, never changed."""
