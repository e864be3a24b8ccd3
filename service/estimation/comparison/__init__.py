"""Use cases over many deployments that the caller lists: a table, or a batch."""
