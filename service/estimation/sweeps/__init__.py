"""Design-space studies: every configuration of given lists, chunk by chunk."""
