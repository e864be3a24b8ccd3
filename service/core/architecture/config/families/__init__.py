"""Families of model architectures, one module each."""
