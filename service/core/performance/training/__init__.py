"""Time of a training step, and of a whole run."""
