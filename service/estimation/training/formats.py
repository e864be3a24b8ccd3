"""Number formats of a training run: of what is trained, of a frozen base, and of products."""

from __future__ import annotations

from collections.abc import Iterator

from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Precision
from service.core.explanation import EstimateWarning
from service.core.number_formats import NUMBER_FORMATS
from service.core.recipes import Recipes
from service.estimation.resolution import Problems, resolve_precision
from service.estimation.training.requests import TrainingRequest

#: Formats that an optimizer can update; others only hold a frozen base.
TRAINABLE = ("fp32", "tf32", "bf16", "fp16", "fp8")
#: Formats that products can run in besides, with results and gradients in 16 bit.
_COMPUTED = (*TRAINABLE, "int8", "nvfp4")
_QUANTISED_BASE = "bnb-nf4"
#: What trainers load a base in that is asked for by its width alone, the first that they read.
_OF_WIDTH = {"int4": (_QUANTISED_BASE, "mlx-4bit"), "int8": ("bnb-int8", "mlx-8bit")}


def with_base(request: TrainingRequest, recipes: Recipes) -> TrainingRequest:
    """The request with the format that its framework loads a frozen base of a width in.

    One whose groups have a size is of that width alone.
    """
    weights, grouped = request.precision.weights, request.precision.group_size is not None
    if request.training.method == "full" or weights not in _OF_WIDTH or grouped:
        return request
    base = loaded_base(weights, recipes)
    return request.model_copy(
        update={"precision": request.precision.model_copy(update={"weights": base})}
    )


def loaded_base(weights: str, recipes: Recipes) -> str:
    """Format that a framework loads a frozen base in that is asked for by a format or a width."""
    return next((one for one in _OF_WIDTH.get(weights, ()) if recipes.freezes(one)), weights)


def training_precision(
    request: TrainingRequest,
    recipes: Recipes,
    architecture: ModelArchitecture,
    problems: Problems,
) -> Precision:
    """Number formats; what is trained must be of a format that an optimizer can update."""
    asked, method = request.precision, request.training.method
    if asked.activations is not None and asked.activations not in _COMPUTED:
        problems.add(
            "/precision/activations", f"must be one of {', '.join(_COMPUTED)} for training"
        )
    if asked.weights is None:
        weights = usual_weights(architecture, method, recipes)
        return resolve_precision(asked.model_copy(update={"weights": weights}), architecture)
    if method == "full" and asked.weights not in TRAINABLE:
        problems.add(
            "/precision/weights",
            f"{asked.weights} weights cannot be updated; use method qlora to train adapters on "
            f"them, or method full with {', '.join(TRAINABLE)}",
        )
    return resolve_precision(asked, architecture)


def usual_weights(architecture: ModelArchitecture, method: str, recipes: Recipes) -> str:
    """Format of weights where none is asked for.

    A quantised base; of weights that are trained what the framework holds, else as shipped.
    """
    if method == "qlora":
        return recipes.usual_base or _QUANTISED_BASE
    if method == "full" and "weights" in recipes.unless_told:
        return str(recipes.unless_told["weights"])
    native = architecture.native_format
    return native if architecture.native_number_format is None and native in TRAINABLE else "bf16"


def widened_warnings(
    request: TrainingRequest, precision: Precision, architecture: ModelArchitecture
) -> Iterator[EstimateWarning]:
    """What to say where weights are held wider than the checkpoint stores them, unasked."""
    if request.precision.weights is not None or request.training.method == "qlora":
        return
    held = precision.weights
    stored = architecture.native_number_format or NUMBER_FORMATS[architecture.native_format]
    if stored.bits_per_element >= held.bits_per_element:
        return
    yield EstimateWarning(
        "weights_widened",
        f"the checkpoint stores weights in {stored.listed_id.upper()}, but method "
        f"{request.training.method} holds them in {held.listed_id.upper()} unless told otherwise: "
        "that is what is estimated. Method qlora trains adapters on a quantised base",
        about="precision.weights",
    )
