"""Memory of an inference deployment."""
