"""Near memory, and stores of vectors."""
