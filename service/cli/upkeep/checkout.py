"""Commands for a checkout of the project: checks, benchmarks, locks."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer

from service.cli.status import MISUSED, REFUSED, notices
from service.extras import EXTRAS

PROJECT_FOLDER = Path(__file__).parents[3]
#: The files in requirements/: what `serve` needs, that with each extra, and everything.
LOCKS = ("runtime", *EXTRAS, "mcp", "otel", "calibration", "dev")
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

bench_app = typer.Typer(help="Measure speed, compared with a yardstick.", no_args_is_help=True)


def checkout() -> Path:
    """The project's folder, or a complaint where only the installed package is at hand."""
    if not (PROJECT_FOLDER / "pyproject.toml").exists():
        notices.print("This command needs a checkout of the project.")
        raise typer.Exit(MISUSED)
    return PROJECT_FOLDER


def run_python(*arguments: str) -> int:
    """Run this Python with the given arguments in the project's folder; its exit status."""
    return subprocess.run([sys.executable, *arguments], cwd=checkout(), check=False).returncode  # noqa: S603


#: What is checked beside the tests.
_CHECKS = {
    "ruff check": ("-m", "ruff", "check", "--quiet"),
    "ruff format": ("-m", "ruff", "format", "--check", "--quiet"),
    "mypy": ("-m", "mypy", "--no-error-summary"),
    "import contracts": (
        "-c",
        "from importlinter.cli import lint_imports_command as lint; lint()",
        "--no-logo",
    ),
}


def check(arguments: tuple[str, ...]) -> str:
    """Run a check; what it printed, nothing if it passed."""
    finished = subprocess.run(  # noqa: S603
        [sys.executable, *arguments],
        cwd=checkout(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return finished.stdout.strip() or "failed" if finished.returncode else ""


def test(context: typer.Context) -> None:
    """Check style, types and architecture, and run pytest with the arguments given beside.

    Without arguments all quick tests run, spread over the processors; --full adds browsers,
    generated clients, faults and hostile requests.
    """
    # The tests say themselves which files come first: those that take longest.
    spread = ("-n", str(min(os.cpu_count() or 1, 8)), "--dist", "loadfile")
    whole = ("-q", *spread, "--no-loadscope-reorder")
    arguments = context.args
    if set(arguments) <= {"--full"}:
        arguments = [*whole, *arguments]
    # Tests are compiled with what their assertions tell, which takes longer than to read it again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with ThreadPoolExecutor() as pool:
        # Style and types are one process, so that they and the tests share the processors fairly.
        reports = pool.submit(lambda: {name: check(one) for name, one in _CHECKS.items()})
        status = run_python("-m", "pytest", *arguments)
        told = reports.result()
    for name, report in told.items():
        if report:
            print(f"\n{name}:\n{report}")
    failed = [name for name, report in told.items() if report]
    passed = [name for name in told if name not in failed]
    if passed:
        notices.print(f"passed: {', '.join(passed)}")
    if failed:
        notices.print(f"failed: {', '.join(failed)}", style="red")
    raise typer.Exit(REFUSED if failed else status)


@bench_app.command("http", context_settings=PASS_ON)
def bench_http(context: typer.Context) -> None:
    """Compare an estimate over HTTP with a bare FastAPI endpoint (--json for programs)."""
    raise typer.Exit(run_python("-m", "benchmarks.http", *context.args))


@bench_app.command("core", context_settings=PASS_ON)
def bench_core(context: typer.Context) -> None:
    """Estimates per second inside one process, without HTTP (--json for programs)."""
    raise typer.Exit(run_python("-m", "benchmarks.core", *context.args))


@bench_app.command("sweeps", context_settings=PASS_ON)
def bench_sweeps(context: typer.Context) -> None:
    """Configurations per second of one core and of several workers (--json for programs)."""
    raise typer.Exit(run_python("-m", "benchmarks.sweeps", *context.args))


@bench_app.command("plans", context_settings=PASS_ON)
def bench_plans(context: typer.Context) -> None:
    """Time of planning a fleet over years, and of reading a trace (--json for programs)."""
    raise typer.Exit(run_python("-m", "benchmarks.plans", *context.args))


def docs(context: typer.Context) -> None:
    """Build the documentation site into build/site; other arguments are mkdocs' (serve)."""
    arguments = context.args or ("build", "--strict", "--quiet")
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")  # what to do about it is in mkdocs.yml
    raise typer.Exit(run_python("-m", "mkdocs", *arguments))


def lock(
    upgrade: Annotated[bool, typer.Option(help="Take the newest versions allowed.")] = False,
) -> None:
    """Compile requirements/*.txt from pyproject.toml (needs uv)."""
    folder = checkout()
    uv = shutil.which("uv")
    if uv is None:
        notices.print("uv was not found; see CONTRIBUTING.md.")
        raise typer.Exit(MISUSED)
    compile_lock = [
        *(uv, "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
        *(
            "--generate-hashes",
            "--no-emit-index-url",
            "--custom-compile-command",
            "./headroom lock",
        ),
        *(("--upgrade",) if upgrade else ()),
    ]
    # Each lock is a part of the development one, so that one environment can hold any of them.
    runtime = ("pyproject.toml", "-c", "requirements/dev.txt")
    for arguments in (
        ("--group", "dev", "--all-extras", "pyproject.toml", "-o", "requirements/dev.txt"),
        (*runtime, "-o", "requirements/runtime.txt"),
        *(
            ("--extra", extra, *runtime, "-o", f"requirements/{extra}.txt")
            for extra in LOCKS
            if extra not in ("runtime", "dev")
        ),
    ):
        subprocess.run([*compile_lock, *arguments], cwd=folder, check=True)  # noqa: S603
