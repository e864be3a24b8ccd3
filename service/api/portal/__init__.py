"""Pages for people, what other sites embed of them, and images."""
