"""Servers that stop without dropping a request that was sent.

uvicorn closes idle connections the moment it is told to stop, and a request that is on its way on
one of them is lost. Here the listener closes first, every answer from then on tells its client to
close the connection, and only those who said nothing for a while are hung up on.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import time
from contextlib import suppress
from types import FrameType

from uvicorn import Config, Server
from uvicorn.supervisors import multiprocess

from service.api.http.state import DRAINING
from service.cli.server.listening import pauses_before_closing
from service.settings import Settings

_LOOK_S = 0.05
#: Within this, all worker processes have let go of the listener that they share.
_SETTLE_S = 0.5


#: Connections that are accepted in one turn of the event loop. libuv accepts one a turn from each
#: file it listens on, and with many connections at work a turn takes long: a crowd that came at
#: once was let in one by one, some of it after seconds.
_ACCEPTED_AT_ONCE = 32


def also_listening(listener: socket.socket) -> list[socket.socket]:
    """Further files of one listener, which close by themselves when their server does.

    None may wait, at no moment: all processes share one flag, ``dup`` sets it as the object says,
    and a process that found it unset would wait for a connection and serve nobody.
    """
    listener.setblocking(False)
    return [listener.dup() for _ in range(_ACCEPTED_AT_ONCE - 1)]


class DrainingServer(Server):
    """A uvicorn server that drains its connections for ``drain_s`` [s] before it hangs up.

    An interrupt from the keyboard does not wait.
    """

    def __init__(self, config: Config, drain_s: float) -> None:
        super().__init__(config)
        self._drain_s = drain_s

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note what the process was told."""
        if sig == signal.SIGINT:
            self._drain_s = 0.0
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and leave what stays for long out of every later search for garbage.

        The catalog is most of what a process holds: looking through it again and again makes the
        slowest answers of a batch take twice as long.
        """
        if sockets:
            sockets = [each for one in sockets for each in (one, *also_listening(one))]
        await super().startup(sockets)
        gc.collect()
        gc.freeze()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, answer those who are connected, then do as uvicorn does."""
        if self.config.workers == 1 and self._drain_s:
            # Of several processes, the one that started them closes what they share.
            for listener in sockets or ():
                for pause in pauses_before_closing(listener):
                    await asyncio.sleep(pause)
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        draining = self.lifespan.state.get(DRAINING)
        if isinstance(draining, asyncio.Event):
            draining.set()
        # Whoever is told to close comes back at once, and must not meet a listener about to go.
        await self._served_for(min(_SETTLE_S, self._drain_s / 2))
        self.server_state.default_headers = [
            *self.server_state.default_headers,
            (b"connection", b"close"),
        ]
        await self._served_for(self._drain_s)
        await super().shutdown(sockets)

    async def _served_for(self, seconds: float) -> None:
        """Go on for a while, or until nobody is connected."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (  # noqa: ASYNC110 - connections tell nobody when they end
            self.server_state.connections and loop.time() < until and not self.force_exit
        ):
            await asyncio.sleep(_LOOK_S)


class DrainingProcess(multiprocess.Process):
    """One of several worker processes, which drains as a single one does."""

    @property
    def server(self) -> Server:
        """The server that runs in the process."""
        if self._server is None:
            self._server = DrainingServer(self.config, Settings().drain_s)
        return self._server


class DrainingProcesses(multiprocess.Multiprocess):
    """Worker processes on one listener, which is closed before they are told to stop."""

    def terminate_all(self) -> None:
        """Let go of the listener, or new connections would wait on it for nobody.

        It is shut down for all processes at once: one that is still starting holds it, too.
        """
        for listener in self.sockets:
            for pause in pauses_before_closing(listener):
                time.sleep(pause)
            with suppress(OSError):  # not every system takes this of a listener
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        super().terminate_all()


def draining_processes(config: Config, listener: socket.socket) -> DrainingProcesses:
    """Worker processes that drain; uvicorn has no other place to say what its processes are."""
    multiprocess.Process = DrainingProcess  # type: ignore[misc]
    return DrainingProcesses(config, sockets=[listener])
