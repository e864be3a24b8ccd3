"""The catalog over HTTP: reading, searching, writing, history."""
