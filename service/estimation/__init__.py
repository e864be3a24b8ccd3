"""Use cases: resolve what a request refers to, call the core, assemble the answer.

Every entry point (HTTP, command line, workers) calls the same functions, which take a request and a
catalog snapshot and give a plain dictionary ready to be serialised.
"""
