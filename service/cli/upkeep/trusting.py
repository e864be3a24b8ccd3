"""Commands for a checkout that ask how far it can be trusted: fuzzing, parts list, advisories."""

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli.status import REFUSED, UNREACHABLE, notices
from service.cli.upkeep.checkout import LOCKS, checkout, run_python

#: About ten cases of HTTP for each of all operations come from the contract without drawing lots.
_USUAL_CASES = 500
#: Tests of hostile requests, by what is asked.
_PARTS = ("estimates", "decisions", "charts", "others")


def fuzz(
    cases: Annotated[
        int, typer.Option(min=1, help="Cases per operation and parser.")
    ] = _USUAL_CASES,
    only: Annotated[
        str | None, typer.Option(help="Only http or only parsers.", metavar="WHICH")
    ] = None,
) -> None:
    """Send hostile requests to a service of its own, and hostile files to the parsers.

    Cases differ from run to run; one that fails is shown, and how to send it again.
    """
    places = {
        "http": tuple(f"tests/fuzz/test_{part}.py" for part in _PARTS),
        "parsers": ("tests/fuzz/test_parsers.py",),
    }
    if only is not None and only not in places:
        raise typer.BadParameter(f"one of {', '.join(places)}", param_hint="--only")
    chosen = [one for name, paths in places.items() if only in (None, name) for one in paths]
    with tempfile.TemporaryDirectory(prefix="headroom-fuzz-") as folder:
        tally = Path(folder) / "tally"
        os.environ |= {"HEADROOM_FUZZ_CASES": str(cases), "HEADROOM_FUZZ_TALLY": str(tally)}
        processes = ("-n", str(min(os.cpu_count() or 1, 2)), "--dist", "loadfile")
        status = run_python("-m", "pytest", "-q", *processes, *chosen)
        told = [json.loads(line) for line in tally.read_text().splitlines()] if status == 0 else []
    counts: defaultdict[str, int] = defaultdict(int)
    for one in told:
        counts[one["kind"]] += one["cases"]
    for kind, count in counts.items():
        print(f"{count:>9,} {kind}")
    resident = max((one.get("resident_bytes", 0) for one in told), default=0)
    if resident:
        print(f"{resident / 1e6:>9,.0f} MB resident in the service at the end")
    raise typer.Exit(status)


def sbom(
    output: Annotated[
        Path | None, typer.Option(help="File to write; default: standard output.", dir_okay=False)
    ] = None,
    lock: Annotated[str, typer.Option(help=f"Which lock: {', '.join(LOCKS)}.")] = "runtime",
) -> None:
    """List what is delivered, with hashes, as CycloneDX 1.6: the same bytes for the same lock."""
    folder = _locked(lock).parent.parent
    arguments = ("requirements", f"requirements/{lock}.txt", "--pyproject", "pyproject.toml")
    form = ("--output-reproducible", "--spec-version", "1.6", "--output-format", "JSON")
    finished = subprocess.run(  # noqa: S603
        # A lock says nothing of what needs what, and the tool warns of that each time.
        [sys.executable, "-W", "ignore", "-m", "cyclonedx_py", *arguments, *form, "-o", "-"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if finished.returncode:
        raise typer.Exit(REFUSED)
    if output is None:
        print(finished.stdout)
    else:
        output.write_text(finished.stdout)
        count = len(json.loads(finished.stdout)["components"])
        notices.print(f"{output} lists {count} components.")


def audit(
    lock: Annotated[str, typer.Option(help=f"Which lock: {', '.join(LOCKS)}.")] = "dev",
) -> None:
    """Ask which locked packages have known weaknesses (exit 1: some; 3: could not be asked).

    The Python Packaging Advisory Database is asked over the network about each of them.
    """
    path = _locked(lock)
    finished = subprocess.run(  # noqa: S603
        [
            *(sys.executable, "-m", "pip_audit", "--requirement", str(path)),
            *("--require-hashes", "--disable-pip", "--format", "json"),
            *("--progress-spinner", "off", "--timeout", "10"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    known, unknown = _answered(finished.stdout)
    found = [
        f"{package['name']} {package['version']}: {weakness['id']} (fixed in "
        f"{', '.join(weakness['fix_versions']) or 'no release yet'})"
        for package in known
        for weakness in package["vulns"]
    ]
    for line in found:
        print(line)
    notices.print(
        f"requirements/{lock}.txt: {len(known)} packages, {len(found)} known vulnerabilities."
    )
    if unknown or not known:
        count = f"{len(unknown)} packages" if known or unknown else "any of them"
        reason = unknown[0] if unknown else (finished.stderr.strip() or "nothing was answered")
        notices.print(
            f"The advisory database could not be reached for {count}, so their vulnerabilities are "
            f"not known. {reason.splitlines()[-1][:300]}",
            style="yellow",
        )
    raise typer.Exit(REFUSED if found else UNREACHABLE if unknown or not known else 0)


def _answered(report: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Packages that a report of pip-audit knows about, and why it does not know about others.

    It calls an audit sound in which nobody answered about any package.
    """
    try:
        packages: list[dict[str, Any]] = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return [], []
    known = [package for package in packages if "vulns" in package]
    return known, [package["skip_reason"] for package in packages if "skip_reason" in package]


def _locked(lock: str) -> Path:
    if lock not in LOCKS:
        raise typer.BadParameter(f"one of {', '.join(LOCKS)}", param_hint="--lock")
    return checkout() / "requirements" / f"{lock}.txt"
