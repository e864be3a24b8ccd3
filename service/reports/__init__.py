"""Answers as documents that people read in a meeting: one content, as a page and as a PDF."""
