"""``python -m service.cli``."""

from service.cli import app

app(prog_name="headroom")
