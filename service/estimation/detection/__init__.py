"""Which entries of the catalog a machine is, from what its own tools say of it."""
