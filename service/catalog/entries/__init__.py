"""Entries of the catalog: documents, the figures in them, and core values made of them."""
