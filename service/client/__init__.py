"""Asking the service's questions from another program: within this process, or over HTTP."""
