"""Asks one peer, in its environment: ``ask.py MODULE [--seconds S]``.

Questions come on stdin and answers go to stdout, as JSON. With ``--seconds`` the questions are
asked over and over for as long, and the answer is the processor time of one [s].
"""

import argparse
import importlib
import json
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    """Ask, or measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("--seconds", type=float)
    chosen = parser.parse_args()
    questions = json.load(sys.stdin)
    answer = importlib.import_module(chosen.module).answer
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if chosen.seconds is None:
            values = [(asked, answer(asked, folder)) for asked in questions]
            json.dump(
                [
                    [asked["id"], asked["quantity"], float(value)]
                    for asked, value in values
                    if value is not None and 0.0 < value < float("inf")
                ],
                sys.stdout,
            )
            return
        # Whatever is loaded once is loaded now.
        answered = [asked for asked in questions if answer(asked, folder) is not None]
        began_s, calls = time.process_time(), 0
        while answered and time.process_time() - began_s < chosen.seconds:
            answer(answered[calls % len(answered)], folder)
            calls += 1
        spent_s = time.process_time() - began_s
        json.dump(spent_s / calls if calls else None, sys.stdout)


if __name__ == "__main__":
    main()
