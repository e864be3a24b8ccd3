"""Training: memory, speed, and everything about a run in one answer."""
