"""Estimates corrected by what whoever asks has measured."""
