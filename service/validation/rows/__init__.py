"""Measurements as rows: read, translated into requests, and compared with the estimates."""
