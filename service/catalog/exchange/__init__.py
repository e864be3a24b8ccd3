"""The catalog as files that people send and fetch: YAML, JSON and CSV, in and out."""
