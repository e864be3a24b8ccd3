"""The ``headroom`` command: ask, serve, mind the catalog; in a checkout also test and measure."""

from service.cli.application import app

__all__ = ["app"]
