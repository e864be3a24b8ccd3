"""The HTTP API: schemas, routes and errors; each operation makes one call into the use cases."""
