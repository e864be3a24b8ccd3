"""Models as catalog documents: a config.json, or what a release changes of another model.

A quantised release has the layers of its base model. What it states is how its weights are stored,
as the ``quantization_config`` of its config.json, and what that does to its answers where somebody
has published it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from service.catalog.entries.documents import Document, DocumentInvalid
from service.catalog.entries.entry import Entry, FigureOrigin
from service.catalog.entries.reading import fields_of, text
from service.core.architecture.config import ConfigNotUnderstood, parse_config
from service.core.architecture.model import ModelArchitecture
from service.core.number_formats import NUMBER_FORMATS

_KEYS = frozenset(
    {
        *("id", "aliases", "name", "organisation", "release_year", "released", "licence"),
        "notes",
        *("published_parameters", "published_active_parameters", "config", "config_source"),
        *("base_model", "quantization_config", "formats", "quality_effects"),
        "task",
    }
)


def model_from_document(
    document: Any,
    find: Callable[[str], Document | None] = lambda model_id: None,  # noqa: ARG005
) -> Entry[ModelArchitecture]:
    """A model from a catalog document or an object with a ``config``.

    Parameters
    ----------
    document
        With a ``config``, or with ``base_model`` and the ``quantization_config`` of a release.
    find
        The document of another model, by id.

    Raises
    ------
    DocumentInvalid
        If nothing is described that can be computed.
    """
    fields = fields_of(document, _KEYS)
    entry_id = text(fields, "id", "inline")
    config, place = _config(fields, find)
    try:
        value = parse_config(config)
    except ConfigNotUnderstood as error:
        raise DocumentInvalid(f"{place}{error.pointer}", error.reason) from error
    task = fields.get("task")
    if task is not None:
        if task not in ("embed", "rerank"):
            raise DocumentInvalid("/task", "must be embed or rerank; without it, models generate")
        value = replace(value, made_for=task)
    for position, name in enumerate(fields.get("formats") or ()):
        if name not in NUMBER_FORMATS:
            raise DocumentInvalid(f"/formats/{position}", "is not a known format of weights")
    source = fields.get("config_source")
    year = fields.get("release_year")
    described = FigureOrigin("models", entry_id, source, year, "datasheet" if source else "given")
    return Entry(entry_id, fields, value, {"config": described, **_effects(entry_id, fields)})


def _config(fields: Document, find: Callable[[str], Document | None]) -> tuple[Any, str]:
    """The config.json that a document amounts to, and where faults in it are to be told."""
    base_id = fields.get("base_model")
    if base_id is None:
        if "config" not in fields:
            raise DocumentInvalid("/config", "is required")
        return fields["config"], "/config"
    if "config" in fields:
        raise DocumentInvalid("/config", "is that of the base model")
    base = find(base_id) if isinstance(base_id, str) else None
    if base is None:
        raise DocumentInvalid("/base_model", f"no model {base_id!r:.80}")
    if not isinstance(base.get("config"), Mapping):
        raise DocumentInvalid("/base_model", "is a release of another model itself")
    stored = fields.get("quantization_config")
    if not isinstance(stored, Mapping) or not stored:
        raise DocumentInvalid("/quantization_config", "must be an object")
    return {**base["config"], "quantization_config": stored}, "/base_model"


def _effects(entry_id: str, fields: Document) -> dict[str, FigureOrigin]:
    """Where the published effects on quality are from, by benchmark."""
    return {
        f"quality_effects/{effect['benchmark']}": FigureOrigin(
            "models", entry_id, effect.get("source"), effect.get("year"), effect.get("kind", "")
        )
        for effect in fields.get("quality_effects") or ()
        if isinstance(effect, Mapping) and isinstance(effect.get("benchmark"), str)
    }
