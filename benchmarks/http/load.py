"""A small load generator: keep-alive connections that each ask again as soon as they are answered.

They ask one question for a while, or a number of questions of which each is another one.

A process of its own, so that its work is not counted as the server's; prints one JSON object:
``python -m benchmarks.http.load --port 8000 --path /v1/estimates/inference --body request.json``.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import uvloop

LOOPBACK = "127.0.0.1"
ANSWER_LIMIT_S = 120.0
#: More than any question takes on a busy machine, on average [s].
LONGEST_QUESTION_S = 10.0


@dataclass(frozen=True, slots=True)
class Load:
    """What one stretch of load saw.

    ``requests`` answers came in ``duration_s`` [s], ``refused`` of them not with status 200.
    ``p50_s`` and ``p99_s`` are percentiles of the time from a request to its complete answer [s];
    ``answer_bytes`` is the size of the last answer's body [bytes].
    """

    requests: int
    refused: int
    duration_s: float
    requests_per_s: float
    p50_s: float
    p99_s: float
    answer_bytes: int


class Connection(asyncio.Protocol):
    """One keep-alive connection; asks as long as there are questions, then closes."""

    def __init__(self, questions: Iterator[bytes], latencies_s: list[float]) -> None:
        self.questions = questions
        self.latencies_s = latencies_s
        self.refused = 0
        self.answer_bytes = 0
        self.done = False
        self.received = bytearray()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note how to ask; all connections begin together."""
        self.transport = cast("asyncio.Transport", transport)

    def ask(self) -> None:
        """Send the next question and start its clock; close after the last."""
        question = next(self.questions, None)
        if question is None:
            self.done = True
            self.transport.close()
            return
        self.sent_s = time.perf_counter()
        self.transport.write(question)

    def data_received(self, data: bytes) -> None:
        """Ask again when the answer is complete."""
        self.received += data
        head_end = self.received.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = bytes(self.received[:head_end]).lower()
        body_bytes = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        if len(self.received) < head_end + 4 + body_bytes:
            return
        self.latencies_s.append(time.perf_counter() - self.sent_s)
        self.refused += not head.startswith(b"http/1.1 200")
        self.answer_bytes = max(self.answer_bytes, body_bytes)
        self.received.clear()
        self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits that this connection is done."""
        if exc is not None or not self.done:
            self.closed.set_exception(exc or ConnectionError("the server closed the connection"))
        else:
            self.closed.set_result(None)


#: Stand in a body for numbers that make each question another one.
VARIED = (b"1000001", b"1000002")
#: Values of the first number, before the second one moves.
_FIRST_VALUES = 1_000


def varied(body: bytes, number: int) -> bytes:
    """A body whose two marked numbers tell it from those of all other numbers."""
    first, second = VARIED
    large, small = divmod(number, _FIRST_VALUES)
    return body.replace(first, b"%d" % (512 + small)).replace(second, b"%d" % (64 + large))


def lasting(duration_s: float, question: bytes) -> Iterator[bytes]:
    """One question again and again, from when it is first taken and for so long [s]."""
    deadline_s = time.perf_counter() + duration_s
    while time.perf_counter() < deadline_s:
        yield question


def http_request(path: str, body: bytes | None, *, packed: bool = False) -> bytes:
    """The bytes of one HTTP/1.1 request: a POST of JSON, or a GET where there is no body."""
    head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\n"
    if packed:
        head += "Accept-Encoding: gzip\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + (body or b"")


async def generate(
    port: int, questions: Iterator[bytes], connections: int, longest_s: float
) -> Load:
    """Keep ``connections`` connections busy with the questions and say what came back."""
    latencies_s: list[float] = []
    loop = asyncio.get_running_loop()
    opened = [
        (await loop.create_connection(lambda: Connection(questions, latencies_s), LOOPBACK, port))[
            1
        ]
        for _ in range(connections)
    ]
    # While some ask, opening others takes long: the first would be answered alone, the last late.
    began_s = time.perf_counter()
    for connection in opened:
        connection.ask()
    async with asyncio.timeout(longest_s + ANSWER_LIMIT_S):
        await asyncio.gather(*(connection.closed for connection in opened))
    elapsed_s = time.perf_counter() - began_s
    ordered_s = sorted(latencies_s)
    return Load(
        requests=len(ordered_s),
        refused=sum(connection.refused for connection in opened),
        duration_s=elapsed_s,
        requests_per_s=len(ordered_s) / elapsed_s,
        p50_s=ordered_s[len(ordered_s) // 2],
        p99_s=ordered_s[len(ordered_s) * 99 // 100],
        answer_bytes=max(connection.answer_bytes for connection in opened),
    )


def main() -> None:
    """Generate the load that the command line asks for and print what it saw as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", required=True)
    parser.add_argument("--body", type=Path, help="a file with the JSON to post; without it, GET")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--packed", action="store_true", help="accept compressed answers")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--distinct", type=int, help="so many questions, each another one")
    asked = parser.parse_args()
    body = asked.body.read_bytes() if asked.body else None
    if asked.distinct is None:
        questions = lasting(asked.seconds, http_request(asked.path, body, packed=asked.packed))
    else:
        questions = (
            http_request(asked.path, varied(body or b"", number), packed=asked.packed)
            for number in range(asked.distinct)
        )
    longest_s = asked.seconds + (asked.distinct or 0) * LONGEST_QUESTION_S
    load = uvloop.run(generate(asked.port, questions, asked.connections, longest_s))
    print(json.dumps(asdict(load)))


if __name__ == "__main__":
    main()
