"""How long sequences are where nobody says: as usual, but no longer than the model was made for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from service.core.architecture.model import ModelArchitecture
from service.core.explanation import EstimateWarning
from service.estimation.references import Request

LENGTH = "sequence_length"
_Asked = TypeVar("_Asked", bound=Request)


def within_models(asked: _Asked, models: Iterable[ModelArchitecture]) -> _Asked:
    """Settings whose sequences all models have positions for, if their length is not told.

    Parameters
    ----------
    asked
        Settings with a field ``sequence_length``.
    models
        What is trained: GPT-2 has positions for 1,024 tokens, Pythia for 2,048.
    """
    if LENGTH in asked.model_fields_set:
        return asked
    limits = (model.max_position_embeddings for model in models)
    usual = getattr(asked, LENGTH)
    length = min((limit for limit in limits if limit is not None), default=usual)
    return asked if length >= usual else asked.model_copy(update={LENGTH: length})


def length_warnings(asked: Request, taken: int) -> Iterable[EstimateWarning]:
    """What to say where sequences are shorter than usual because the model's positions end.

    Parameters
    ----------
    asked
        Settings as they were asked for.
    taken
        Tokens of a sequence that are estimated.
    """
    if LENGTH not in asked.model_fields_set and taken < getattr(asked, LENGTH):
        yield EstimateWarning(
            "sequence_length_assumed",
            f"the request does not say how long sequences are: {taken:,} tokens are assumed, as "
            "many as the model has positions for",
            about=f"training.{LENGTH}",
        )
