"""``python -m service.cli``."""

from service.cli import app

# Processes that draw charts load this module again, without running it.
if __name__ == "__main__":
    app(prog_name="headroom")
