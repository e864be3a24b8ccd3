"""The application as clients meet it, without sockets: on a real database, or on files alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI

#: The deployment that the documentation uses throughout.
MAIN: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-70B",
    "precision": {"weights": "bf16"},
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8,
    "region": "aws/eu-north-1",
    "workload": {"input_tokens": 2048, "output_tokens": 256, "concurrency": 32},
}
UNPLACED = {name: value for name, value in MAIN.items() if name != "region"}


@contextmanager
def served(application: FastAPI) -> Iterator[str]:
    """The address of a real server, on a free port of this machine."""
    config = uvicorn.Config(application, port=0, log_config=None, lifespan="on")
    listener = config.bind_socket()
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    pause = threading.Event()
    while not server.started and thread.is_alive():
        pause.wait(0.02)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=30)
    listener.close()
