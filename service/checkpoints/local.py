"""A model in files on this machine, as a request refers to it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from service.checkpoints.gguf_config import config_of_gguf, stored_bytes
from service.checkpoints.gguf_header import read_gguf_header
from service.checkpoints.reading import MOST_CONFIG_BYTES, CheckpointUnreadable, read_json_object
from service.checkpoints.safetensors_header import elements_by_type

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
#: Indices name every tensor; those of models with a hundred thousand take about ten megabytes.
_MOST_INDEX_BYTES = 100_000_000
_MOST_SHARDS = 2_000


def local_model(path: Path) -> dict[str, Any]:
    """What a file or folder says of the model in it.

    Parameters
    ----------
    path
        A ``config.json`` of any name, a folder with one, a ``.safetensors`` file beside one, or a
        ``.gguf`` file.

    Returns
    -------
    dict
        ``config``, and ``safetensors_index`` where the weights' files are there as well.

    Raises
    ------
    CheckpointUnreadable
        If it says too little, or what it says cannot be understood; the message names the file.
    """
    if path.is_dir():
        return _folder(path)
    kind = path.suffix.lower()
    if kind == ".gguf":
        header = _told(path, read_gguf_header)
        config = _told(path, lambda _: config_of_gguf(header))
        return {
            "config": config,
            "safetensors_index": {"metadata": {"total_size": stored_bytes(header)}},
        }
    if kind == ".safetensors":
        return _beside(path)
    config = _told(path, lambda file: read_json_object(file, MOST_CONFIG_BYTES))
    if "weight_map" in config and "model_type" not in config:
        raise CheckpointUnreadable(f"{path} is an index of shards; give its folder")
    return {"config": config}


def _folder(folder: Path) -> dict[str, Any]:
    config = folder / CONFIG
    if not config.is_file():
        held = sorted(folder.glob("*.gguf"))
        if len(held) == 1:
            return local_model(held[0])
        raise CheckpointUnreadable(f"{folder} has no {CONFIG}")
    model = local_model(config)
    index = folder / INDEX
    if index.is_file():
        metadata = _told(index, lambda file: read_json_object(file, _MOST_INDEX_BYTES))
        # The map of tensors to shards is long, and tells nothing of their size.
        return model | {"safetensors_index": {"metadata": metadata.get("metadata")}}
    shards = sorted(folder.glob("*.safetensors"))[:_MOST_SHARDS]
    return model | _of_shards(shards)


def _beside(path: Path) -> dict[str, Any]:
    """A file's tensors with the configuration beside it; of a shard, the whole model's."""
    if (path.parent / INDEX).is_file():
        return _folder(path.parent)
    config = path.parent / CONFIG
    if not config.is_file():
        raise CheckpointUnreadable(
            f"{path} has shapes but no architecture; put its {CONFIG} in the same folder"
        )
    return local_model(config) | _of_shards([path])


def _of_shards(shards: list[Path]) -> dict[str, Any]:
    elements: Counter[str] = Counter()
    for shard in shards:
        elements.update(_told(shard, elements_by_type))
    return {"safetensors_index": {"parameters": dict(elements)}} if elements else {}


def _told(path: Path, read: Any) -> Any:
    """What a reader finds in a file; complaints name the file."""
    try:
        return read(path)
    except CheckpointUnreadable as error:
        raise CheckpointUnreadable(f"{path}: {error}") from None
    except OSError as error:
        raise CheckpointUnreadable(f"{path}: {error.strerror}") from None
