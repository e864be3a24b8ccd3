"""Which backend of an engine a request means, and whether it exists on the hardware."""

from __future__ import annotations

from service.catalog.snapshot import CatalogSnapshot
from service.core.backends import Backend, backends_on, usual_backend
from service.core.deployment import Accelerator
from service.core.engines import Engine, EngineRelease
from service.estimation.resolution import Problems

BACKEND = "/serving/backend"


def backend_of(
    asked: Backend | None,
    release: EngineRelease,
    accelerator: Accelerator,
    snapshot: CatalogSnapshot,
) -> Backend | None:
    """The backend that is asked for, else what most people run on an accelerator.

    None for engines that have no choice.
    """
    engine = snapshot.engines[release.engine].value
    if asked is not None and engine.backends:
        return asked
    return usual_backend(engine.backends, accelerator.hardware)


def has_backend(engine: Engine, asked: Backend | None, accelerator: Accelerator) -> bool:
    """Whether an engine has the backend that is asked for on an accelerator, or none is."""
    hardware = accelerator.hardware
    return asked is None or hardware.unknown or asked in backends_on(engine.backends, hardware)


def check_backend(
    asked: Backend | None,
    release: EngineRelease,
    accelerator: Accelerator,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> None:
    """Note it, with those that exist, if an engine lacks a backend on an accelerator."""
    engine = snapshot.engines[release.engine].value
    if has_backend(engine, asked, accelerator):
        return
    able = backends_on(engine.backends, accelerator.hardware)
    if able:
        detail = f"{engine.name} has no {asked} on {accelerator.name}, but {', '.join(able)}"
    else:
        detail = (
            f"{engine.name} drives {accelerator.name} in one way only; leave it out, or name an "
            "engine with a choice, such as llama.cpp"
        )
    problems.add(BACKEND, detail, able)
