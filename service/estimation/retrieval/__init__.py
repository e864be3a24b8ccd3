"""Answers with retrieved context, end to end: embedding, search, injection and generation."""
