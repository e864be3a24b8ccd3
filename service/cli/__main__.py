"""``python -m service.cli``."""

import gc

# Processes that draw charts load this module again, and need nothing of it.
if __name__ == "__main__":
    # Nearly all that a start allocates stays: looking for garbage in it would take a sixth of the
    # time.
    gc.set_threshold(50_000)

    from service.cli.application import main

    main()
