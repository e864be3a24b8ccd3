"""Measured memory of training runs, beside the estimate of a run with the row's settings."""

from __future__ import annotations

from service.catalog.snapshot import CatalogSnapshot
from service.core.interval import Interval, without
from service.core.memory.training.memory import TrainingMemory, training_memory
from service.estimation.training.calibrations import training_memory_overheads
from service.validation.former.statistics import Compared
from service.validation.rows.tables import Row, RowRefused
from service.validation.rows.training_runs import convention_of, run_of
from service.validation.rows.vocabulary import Vocabulary, accelerator_of, unit_size

_TOTALS = ("peak_memory_total",)
_METRICS = ("peak_memory_per_gpu", "gpu_memory", "nvidia_smi_used", *_TOTALS)


def training_memory_row(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> Compared:
    """Compare one row of ``memory_training``."""
    metric = row.text("metric")
    if metric not in _METRICS:
        raise RowRefused(f"metric {metric[:40]!r} is not known")
    size = unit_size(row, vocabulary)
    accelerator = accelerator_of(row, vocabulary, snapshot)
    found = run_memory(row, vocabulary, snapshot)
    times = found.deployment.parallelism.accelerator_count if metric in _TOTALS else 1
    convention = convention_of(row)
    if convention.counted is None:
        raise RowRefused(f"what {row.text('framework')[:40]!r} counts is not known")
    counted = _counted(found, convention.counted)
    return Compared(
        row=row,
        metric=metric,
        family=snapshot.accelerators[accelerator].value.family,
        unit="bytes",
        measured=row.needed("value") * size,
        value=float(counted.value) * times,
        low=float(counted.low) * times,
        high=float(counted.high) * times,
        warnings=tuple(warning.message for warning in found.deployment.architecture.warnings),
    )


def training_fits(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> bool:
    """Whether the estimate lets a row fit."""
    return bool(run_memory(row, vocabulary, snapshot).fits)


def run_memory(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> TrainingMemory:
    """Memory of the run that the row describes, on its fullest accelerator."""
    run = run_of(row, vocabulary, snapshot)
    return training_memory(
        run.deployment, run.micro_batch, run.settings, training_memory_overheads(snapshot)
    )


def _counted(found: TrainingMemory, counted: str) -> Interval:
    """The part of the whole that a report counts."""
    if counted == "process":
        return found.total_bytes
    if counted == "allocated":
        return without(found.total_bytes, found.unallocated_bytes)
    held, total = found.libraries_bytes.value, found.total_bytes
    return Interval(total.value - held, total.low - held, total.high - held)
