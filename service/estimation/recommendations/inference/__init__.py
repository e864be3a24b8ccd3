"""Recommendations for serving a model."""
