"""``python -m service.cli``."""

import gc

# Nearly all that a start allocates stays: looking for garbage in it would take a sixth of the time.
gc.set_threshold(50_000)

from service.cli import app  # noqa: E402

# Processes that draw charts load this module again, without running it.
if __name__ == "__main__":
    app(prog_name="headroom")
