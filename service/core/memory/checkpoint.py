"""What the files of a checkpoint hold, beside what its architecture takes.

A ``config.json`` names the language model's tensors only. The index of a sharded checkpoint, or
what a model hub tells of its safetensors files, says how many bytes there are in truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import Any

from service.core.architecture.model import ModelArchitecture
from service.core.architecture.tensors import Shard, Tensor, TensorClass
from service.core.errors import InvalidInput
from service.core.explanation import EstimateWarning
from service.core.memory.weights import total_model_bytes
from service.core.number_formats import NumberFormat

#: Bytes per element of the safetensors types (https://huggingface.co/docs/safetensors, 2024).
_TYPE_BYTES = {
    "F64": 8.0,
    "I64": 8.0,
    "U64": 8.0,
    "F32": 4.0,
    "I32": 4.0,
    "U32": 4.0,
    "F16": 2.0,
    "BF16": 2.0,
    "I16": 2.0,
    "U16": 2.0,
    "F8_E4M3": 1.0,
    "F8_E5M2": 1.0,
    "F8_E8M0": 1.0,
    "I8": 1.0,
    "U8": 1.0,
    "BOOL": 1.0,
    "F4": 0.5,
}
#: Larger than any checkpoint: beyond it a number is a mistake.
_MOST_BYTES = 1e15
#: Buffers and file formats differ by less than this share.
_AGREEING_RATIO = 0.005
#: More than this share of the language model again is no tower beside it but another format.
_MOST_ADDED_RATIO = 0.5


class CheckpointNotUnderstood(InvalidInput):
    """Metadata of a checkpoint that tell no size; ``pointer`` is a JSON pointer into them."""

    def __init__(self, pointer: str, reason: str) -> None:
        super().__init__(reason)
        self.pointer = pointer


def stated_checkpoint_bytes(index: Mapping[str, Any]) -> float:
    """Bytes of all tensors in a checkpoint's files [B].

    Parameters
    ----------
    index
        The content of ``model.safetensors.index.json``, whose ``metadata.total_size`` counts; or
        ``{"parameters": {type: elements}}`` as a model hub summarises safetensors files.

    Raises
    ------
    CheckpointNotUnderstood
        If neither is there, or a number is impossible.
    """
    metadata = index.get("metadata")
    if isinstance(metadata, Mapping) and "total_size" in metadata:
        return _count(metadata["total_size"], "/metadata/total_size")
    elements = index.get("parameters")
    if not isinstance(elements, Mapping) or not elements:
        raise CheckpointNotUnderstood(
            "", "has neither metadata.total_size (an index file) nor parameters by type"
        )
    total = 0.0
    for name, number in elements.items():
        if name not in _TYPE_BYTES:
            known = ", ".join(_TYPE_BYTES)
            raise CheckpointNotUnderstood(
                "/parameters", f"unknown type {name[:20]!r} (known: {known})"
            )
        total += _TYPE_BYTES[name] * _count(number, f"/parameters/{name}")
    return total


def with_checkpoint(
    architecture: ModelArchitecture, shipped: NumberFormat, stated_bytes: float
) -> ModelArchitecture:
    """The architecture with what its checkpoint's files hold beyond it.

    Parameters
    ----------
    architecture
        As its configuration describes it.
    shipped
        Number format that the checkpoint ships in.
    stated_bytes
        Bytes of all tensors in the files [B].

    Returns
    -------
    ModelArchitecture
        With a tensor for what the configuration does not name (held once by each rank of the
        first pipeline stage), if that can be such tensors; with a warning wherever both differ.
    """
    expected = total_model_bytes(architecture, shipped)
    more = stated_bytes - expected
    if abs(more) <= _AGREEING_RATIO * expected:
        return architecture
    differing = (
        f"the checkpoint's files hold {stated_bytes / 1e9:.2f} GB, the tensors that its "
        f"configuration describes take {expected / 1e9:.2f} GB ({more / expected:+.1%})"
    )
    table = sum(tensor.elements for tensor in architecture.embedding)
    table_bytes = table * shipped.bits(TensorClass.HEAD) / 8.0
    if architecture.tied_embeddings and abs(more - table_bytes) <= _AGREEING_RATIO * expected:
        return _warned(
            architecture,
            "checkpoint_repeats_table",
            f"{differing}: the checkpoint has the shared embedding table twice, while engines keep "
            "one copy",
        )
    if more < 0.0 or more > _MOST_ADDED_RATIO * expected:
        return _warned(
            architecture,
            "checkpoint_disagrees",
            f"{differing}; the latter is used. State the format of the weights if the files have "
            "another one than the configuration says",
        )
    added = Tensor(
        name="not_in_config",
        tensor_class=TensorClass.OTHER,
        input_features=1,
        output_features=ceil(more * 8.0 / shipped.bits(TensorClass.OTHER)),
        shard=Shard.REPLICATED,
    )
    return _warned(
        replace(architecture, other=(*architecture.other, added)),
        "checkpoint_holds_more",
        f"{differing}; the difference is counted on the first pipeline stage, undivided",
    )


def _warned(architecture: ModelArchitecture, code: str, message: str) -> ModelArchitecture:
    return replace(architecture, warnings=(*architecture.warnings, EstimateWarning(code, message)))


def _count(number: object, pointer: str) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise CheckpointNotUnderstood(pointer, "must be a number")
    if not 0 < number <= _MOST_BYTES:
        raise CheckpointNotUnderstood(pointer, f"must be between 1 and {_MOST_BYTES:.0e}")
    return float(number)
