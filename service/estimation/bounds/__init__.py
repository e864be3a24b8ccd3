"""What hardware allows at most, whatever the software: the use case."""
