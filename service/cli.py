"""The ``headroom`` command: serve, mind the catalog; in a checkout also test and measure."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from service.settings import Settings

PROJECT_FOLDER = Path(__file__).parents[1]

app = typer.Typer(
    name="headroom",
    help="What an LLM deployment needs and costs before it is bought.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
catalog_app = typer.Typer(help="Mind the catalog's files.", no_args_is_help=True)
app.add_typer(catalog_app, name="catalog")
bench_app = typer.Typer(help="Measure speed, beside a yardstick.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")

notices = Console(stderr=True, highlight=False)
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


# ---------------------------------------------------------------------------------------------
# Serving


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free one.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that answer requests.")
    ] = None,
) -> None:
    """Serve the API until interrupted; options win over HEADROOM_HOST, _PORT and _WORKERS."""
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    settings = Settings()
    port = settings.port if port is None else port
    workers = workers or settings.workers

    # uvicorn finishes its requests and then raises the signal again, which ends here: a clean exit.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    config = uvicorn.Config(
        "service.api.app:create_app",
        factory=True,
        host=host or settings.host,
        port=port,
        workers=workers,
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http="httptools",
        log_config=None,
        log_level="warning",  # what it says on starting and stopping is said by our one line
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,  # longer than the idle time of common load balancers
        timeout_graceful_shutdown=30,
    )
    listener = config.bind_socket()
    address = listener.getsockname()[:2]
    threading.Thread(target=announce, args=address, daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        if workers == 1:
            server = uvicorn.Server(config)
            server.run(sockets=[listener])
            if not server.started:
                raise typer.Exit(3)
        else:
            Multiprocess(config, sockets=[listener]).run()


@app.command()
def worker() -> None:
    """Evaluate sweeps until interrupted; any number of these may run, on any number of hosts."""
    from service.api.logs import set_up_logs
    from service.catalog.store import DatabaseUnavailable
    from service.jobs.process import work

    settings = Settings()
    set_up_logs(settings)
    try:
        asyncio.run(work(settings, lambda: print("Headroom works on sweeps", flush=True)))
    except DatabaseUnavailable as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None


def announce(host: str, port: int) -> None:
    """Say where the service listens as soon as it answers."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    while True:
        connection = HTTPConnection(reachable, port, timeout=5)
        try:
            connection.request("GET", "/livez")
            connection.getresponse().read()
        except OSError:
            time.sleep(0.02)
        else:
            break
        finally:
            connection.close()
    address = f"http://{f'[{reachable}]' if ':' in reachable else reachable}:{port}"
    print(f"Headroom answers at {address} (documentation: {address}/docs)", flush=True)


# ---------------------------------------------------------------------------------------------
# Database, catalog and contract


@app.command()
def migrate(
    target: Annotated[str, typer.Argument(help="A migration's id, or head.")] = "head",
) -> None:
    """Bring the database's schema to a migration; serve does this by itself when it starts."""
    from service.catalog import database
    from service.catalog.embedded import EmbeddedPostgres

    async def run(url: str) -> None:
        engine = database.create_engine(url, settings.database_timeout_s)
        try:
            await database.migrate(engine, target)
        finally:
            await engine.dispose()

    settings = Settings()
    if settings.database_url is not None:
        asyncio.run(run(settings.database_url.get_secret_value()))
        return
    embedded = EmbeddedPostgres(settings.data_directory)
    try:
        asyncio.run(run(embedded.start()))
    finally:
        embedded.stop()


@catalog_app.command("validate")
def validate_catalog(
    directory: Annotated[
        Path | None, typer.Argument(help="Folder of catalog files; the packaged ones if left out.")
    ] = None,
) -> None:
    """Check catalog files: form, sources, names, figures; lists everything that is wrong."""
    from service.catalog.documents import CatalogInvalid
    from service.catalog.files import packaged_documents

    folder = directory or Settings().catalog_directory
    try:
        documents = packaged_documents(folder)
    except CatalogInvalid as invalid:
        print(invalid, file=sys.stderr)
        raise typer.Exit(1) from None
    counts = ", ".join(f"{len(entries)} {name}" for name, entries in sorted(documents.items()))
    print(f"{folder} is sound: {counts}")


@app.command()
def openapi() -> None:
    """Print the OpenAPI document."""
    from service.api.app import create_app

    print(json.dumps(create_app().openapi(), indent=2))


@app.command()
def validate(
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of measurements as CSV files; the packaged ones if left out."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    write_docs: Annotated[
        bool, typer.Option(help="Write docs/accuracy.md from the packaged measurements.")
    ] = False,
) -> None:
    """Hold estimates against published measurements: errors, coverage, what was refused."""
    from service.validation.command import ValidationRefused, validation

    try:
        validation(
            Settings().catalog_directory,
            data,
            as_json=as_json,
            document=checkout() / "docs" / "accuracy.md" if write_docs else None,
            note=notices.print,
        )
    except ValidationRefused as refused:
        print(refused, file=sys.stderr)
        raise typer.Exit(1) from None


@app.command()
def calibrate(
    write: Annotated[
        bool, typer.Option("--write/--check", help="Write the fitted constants, or only compare.")
    ] = False,
) -> None:
    """Refit efficiencies to the packaged measurements; fails if the catalog says otherwise."""
    from service.calibration.command import CalibrationRefused, calibration

    try:
        differing = calibration(Settings().catalog_directory, write=write, note=notices.print)
    except CalibrationRefused as refused:
        print(refused, file=sys.stderr)
        raise typer.Exit(1) from None
    for line in differing:
        print(line)
    if differing and not write:
        raise typer.Exit(1)


# ---------------------------------------------------------------------------------------------
# In a checkout of the project: checks, benchmarks, locks


def checkout() -> Path:
    """The project's folder, or a complaint where only the installed package is at hand."""
    if not (PROJECT_FOLDER / "pyproject.toml").exists():
        notices.print("This command needs a checkout of the project.")
        raise typer.Exit(2)
    return PROJECT_FOLDER


def run_python(*arguments: str) -> int:
    """Run this Python with the given arguments in the project's folder; its exit status."""
    return subprocess.run([sys.executable, *arguments], cwd=checkout(), check=False).returncode  # noqa: S603


def passes(name: str, *arguments: str) -> bool:
    """Whether a check passes; what it printed is shown only if it does not."""
    finished = subprocess.run(  # noqa: S603
        [sys.executable, *arguments],
        cwd=checkout(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if finished.returncode:
        print(finished.stdout.strip())
        notices.print(f"failed: {name}", style="red")
    return finished.returncode == 0


@app.command(context_settings=PASS_ON)
def test(context: typer.Context) -> None:
    """Check style, types and architecture, then run pytest with the arguments given.

    Without arguments everything under tests/ runs, spread over the processors.
    """
    checks = {
        "ruff check": ("-m", "ruff", "check", "--quiet"),
        "ruff format": ("-m", "ruff", "format", "--check", "--quiet"),
        "mypy": ("-m", "mypy", "--no-error-summary"),
        "import contracts": (
            "-c",
            "from importlinter.cli import lint_imports_command as lint; lint()",
            "--no-logo",
        ),
    }
    results = [passes(name, *arguments) for name, arguments in checks.items()]
    if not all(results):
        raise typer.Exit(1)
    processes = ["-n", str(min(os.cpu_count() or 1, 8)), "--dist", "loadfile"]
    raise typer.Exit(run_python("-m", "pytest", *(context.args or processes)))


@bench_app.command("http", context_settings=PASS_ON)
def bench_http(context: typer.Context) -> None:
    """An estimate over HTTP beside a bare FastAPI endpoint (--json for programs)."""
    raise typer.Exit(run_python("-m", "benchmarks.http", *context.args))


@bench_app.command("core", context_settings=PASS_ON)
def bench_core(context: typer.Context) -> None:
    """Estimates per second inside one process, without HTTP (--json for programs)."""
    raise typer.Exit(run_python("-m", "benchmarks.core", *context.args))


@bench_app.command("sweeps", context_settings=PASS_ON)
def bench_sweeps(context: typer.Context) -> None:
    """Configurations per second of one core, and of workers together (--json for programs)."""
    raise typer.Exit(run_python("-m", "benchmarks.sweeps", *context.args))


@app.command()
def lock(
    upgrade: Annotated[bool, typer.Option(help="Take the newest versions allowed.")] = False,
) -> None:
    """Compile requirements/*.txt from pyproject.toml (needs uv)."""
    folder = checkout()
    uv = shutil.which("uv")
    if uv is None:
        notices.print("uv was not found; see CONTRIBUTING.md.")
        raise typer.Exit(2)
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
    # The runtime lock is a part of the development one, so that one environment can hold either.
    for arguments in (
        ("--group", "dev", "pyproject.toml", "-o", "requirements/dev.txt"),
        ("pyproject.toml", "-c", "requirements/dev.txt", "-o", "requirements/runtime.txt"),
    ):
        subprocess.run([*compile_lock, *arguments], cwd=folder, check=True)  # noqa: S603


if __name__ == "__main__":
    app(prog_name="headroom")
