"""What to train on, where, and how: by deadline and budget."""
