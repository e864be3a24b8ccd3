"""``headroom serve`` and ``headroom worker``: the API and its jobs, until interrupted."""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.client import HTTPConnection
from typing import Annotated

import typer

from service.cli.status import UNREACHABLE, notices
from service.extras import EXTRAS, how_to_add, is_installed
from service.settings import Settings

#: A worker that has not told by then that it lives is replaced: long enough for one that is still
#: being loaded on a machine that is busy with something else.
_HANGS_S = 60


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free one.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that answer requests.")
    ] = None,
    extras: Annotated[
        str,
        typer.Option(
            "--with",
            metavar="EXTRAS",
            envvar="HEADROOM_WITH",
            help="Parts to install first, separated by commas: "
            + ", ".join(f"{name} ({extra.purpose})" for name, extra in EXTRAS.items())
            + "; or all.",
        ),
    ] = "",
) -> None:
    """Serve the API until interrupted; options win over HEADROOM_HOST, _PORT and _WORKERS."""
    _check(extras)
    import uvicorn

    from service.cli.server.connections import BoundedProtocol
    from service.cli.server.draining import DrainingServer, draining_processes

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
        http=partial(BoundedProtocol, timeout_s=settings.client_timeout_s),  # type: ignore[arg-type]
        ws="none",
        log_config=None,
        log_level="warning",  # what it says on starting and stopping is said by our one line
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,  # longer than the idle time of common load balancers
        timeout_graceful_shutdown=30,
        timeout_worker_healthcheck=_HANGS_S,
    )
    try:
        listener = config.bind_socket()
    except SystemExit:  # uvicorn has said why
        place = f"{config.host}:{config.port}"
        notices.print(f"{place} cannot be listened on; --host and --port name another address")
        raise typer.Exit(UNREACHABLE) from None
    address = listener.getsockname()[:2]
    threading.Thread(target=announce, args=address, daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        if workers == 1:
            server = DrainingServer(config, settings.drain_s)
            server.run(sockets=[listener])
            if not server.started:
                raise typer.Exit(UNREACHABLE)
        else:
            with shared_metrics():
                draining_processes(config, listener).run()


def _check(extras: str) -> None:
    """See that what was asked for is there; `./headroom` has installed it by now."""
    wanted = [name for name in extras.replace(",", " ").split() if name != "all"]
    unknown = [name for name in wanted if name not in EXTRAS]
    if unknown:
        known = ", ".join((*EXTRAS, "all"))
        raise typer.BadParameter(f"no {unknown[0]!r}; there are {known}", param_hint="--with")
    missing = [name for name in wanted or EXTRAS if not is_installed(name)]
    if extras and missing:
        raise typer.BadParameter(f"not installed: {how_to_add(missing)}", param_hint="--with")


@contextlib.contextmanager
def shared_metrics() -> Iterator[None]:
    """A folder in which workers share what they count, unless one is set up already."""
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="headroom-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        yield


def worker() -> None:
    """Evaluate sweeps until interrupted; any number of these may run, on any number of hosts."""
    _check("sweeps")
    from service.api.observability.logs import set_up_logs
    from service.catalog.database.store import DatabaseUnavailable
    from service.jobs.process import work

    settings = Settings()
    set_up_logs(settings)
    try:
        asyncio.run(work(settings, lambda: print("Headroom is evaluating sweeps", flush=True)))
    except DatabaseUnavailable as error:
        print(error, file=sys.stderr)
        raise typer.Exit(UNREACHABLE) from None


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
    print(f"Headroom is running at {address} (documentation: {address}/docs)", flush=True)
