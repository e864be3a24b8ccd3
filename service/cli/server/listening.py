"""Listeners that close without losing a client who has just connected.

The system completes connections before a process accepts them, and resets those that wait when a
listener closes. On Linux a listener can be told to overlook those who ask for a connection from now
on (their system asks again after a second, and is refused), while those who were let in are
accepted. Elsewhere, whoever connects at the very moment of closing is reset.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import sys
import time
from collections.abc import Iterator

_SO_ATTACH_FILTER = 26  # asm-generic/socket.h; Python does not name it

#: Classic BPF on a segment of TCP, whose flags are its byte 13: none whose SYN is set passes.
_NO_SYN = (
    (0x30, 0, 0, 13),  # load byte 13
    (0x45, 0, 1, 0x02),  # go on if SYN is set, else skip one
    (0x06, 0, 0, 0),  # drop
    (0x06, 0, 0, 0xFFFFFFFF),  # pass
)
#: Where Linux says how many wait to be accepted: ``tcpi_unacked`` of ``struct tcp_info``.
_WAITING_AT_BYTE = 24
#: A handshake that has begun ends within this.
_HANDSHAKE_S = 0.1
#: Whoever has not been accepted after this is not going to be.
_MOST_S = 5.0


def pauses_before_closing(listener: socket.socket) -> Iterator[float]:
    """Let nobody in any more, in all processes that share a listener.

    Yields:
        How long to wait [s], until all who were let in have been accepted.
    """
    if not _overlook_newcomers(listener):
        return
    yield _HANDSHAKE_S
    until = time.monotonic() + _MOST_S
    while _waiting(listener) and time.monotonic() < until:
        yield 0.01
    # What was just accepted becomes known to its process in its next turn.
    yield 0.01


def _overlook_newcomers(listener: socket.socket) -> bool:
    """Whether the system could be told to."""
    if sys.platform != "linux":
        return False
    program = b"".join(struct.pack("=HBBI", *instruction) for instruction in _NO_SYN)
    held = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of instructions, and where they are.
    fprog = struct.pack("@HP", len(_NO_SYN), ctypes.addressof(held))
    try:
        listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, fprog)
    except OSError:
        return False
    return True


def _waiting(listener: socket.socket) -> int:
    """How many clients have connected and are not accepted."""
    try:
        info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _WAITING_AT_BYTE + 4)
    except OSError:
        return 0
    return int(struct.unpack_from("=I", info, _WAITING_AT_BYTE)[0])
