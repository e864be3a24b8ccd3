"""``headroom serve`` and ``headroom worker``: processes, listeners, draining."""
