"""``python -m benchmarks.peers``: ask other estimators about the packaged measurements."""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime

from benchmarks.peers.environments import NAMES, PeerFailed, ask, install, requirement
from benchmarks.peers.questions import questions
from service.settings import Settings
from service.validation.packaged import MEASUREMENTS, packaged_lines, read_packaged
from service.validation.report.peers import ANSWERS, Peer, write_peers


def main() -> None:
    """Ask, and record the answers with ``--write``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--peer", choices=NAMES, action="append", help="ask only this one")
    parser.add_argument("--write", action="store_true", help="record the answers in the catalog")
    chosen = parser.parse_args()
    catalog = Settings().catalog_directory
    packaged = read_packaged(catalog)
    lines = packaged_lines(catalog, packaged.snapshot)
    asked = list(questions(lines, packaged.snapshot))
    recorded = {peer.name: peer for peer in packaged.peers}
    for name in chosen.peer or NAMES:
        try:
            install(name)
            began_s = time.monotonic()
            answers = ask(name, asked)
        except PeerFailed as failed:
            raise SystemExit(str(failed)) from None
        spent_s = time.monotonic() - began_s
        print(f"{name}: {len(answers)} of {len(asked)} figures answered in {spent_s:.0f} s")
        recorded[name] = Peer(
            name=name,
            version=requirement(name).partition("==")[2],
            asked_on=datetime.now(UTC).date().isoformat(),
            values={(id_, quantity): value for id_, quantity, value in answers},
        )
    if chosen.write:
        write_peers(catalog / MEASUREMENTS / ANSWERS, list(recorded.values()))
        print("Recorded. `./headroom validate --write-docs` writes the tables.")


if __name__ == "__main__":
    main()
