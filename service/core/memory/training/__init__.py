"""Memory of a training run."""
