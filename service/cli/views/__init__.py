"""Answers as people read them in a terminal: tables, bars, and numbers with readable units."""
