"""What an estimate means, in plain words: the same wherever people read it."""
