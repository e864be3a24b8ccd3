"""Use case: memory of one model trained and served, with what paging and pruning save."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.tensors import TensorClass
from service.core.deployment import Parallelism
from service.core.explanation import EstimateWarning, Formula, Step, explain
from service.core.interval import Interval, exact, quotient, scale
from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.kv_cache import cache_layout
from service.core.memory.pruning import (
    PRUNED,
    SEMI_STRUCTURED_FAMILIES,
    SEMI_STRUCTURED_RATIO,
    product_ratio,
    stored_ratio,
)
from service.core.memory.reservation import RESERVATION, Reservation, reservation
from service.core.memory.training.memory import TrainingMemory, training_memory
from service.estimation.answers import figure, frame, grounds
from service.estimation.inference.deployment import ComputedDeployment, compute_deployment
from service.estimation.inference.lengths import mean_and_spread
from service.estimation.learning.deployments import learnt_deployment, learnt_training
from service.estimation.profile.answers import (
    CacheReservation,
    MemoryProfileAnswer,
    ProfilePart,
    PrunedWeights,
    SeedActivations,
)
from service.estimation.profile.requests import MemoryProfileRequest
from service.estimation.projections.over_time import positive
from service.estimation.requests import LengthsRequest
from service.estimation.resolution import Problems
from service.estimation.training.requests import MemoryTrainingRequest
from service.estimation.training.setup import ResolvedTraining

#: What the rule of thumb says, and its range. Source: the guides that state it.
_USUAL_CONSTANT = Interval(15.0, 10.0, 20.0)
_BOTH = ("weights_bytes", "activations_bytes", "runtime_bytes")
_TRAINING = ("gradients_bytes", "optimizer_bytes", "logits_bytes")
_INFERENCE = ("kv_cache_bytes",)
_PRUNED_CLASSES = frozenset(
    {
        TensorClass.ATTENTION,
        TensorClass.STATE,
        TensorClass.DENSE_FFN,
        TensorClass.EXPERT,
        TensorClass.SHARED_EXPERT,
    }
)
SEED = (
    Formula(
        "Activations by the rule of thumb",
        "constant * layers * sequences * tokens * hidden_size * bytes_per_element",
        "Rule of thumb of guides on training memory; the constant is 10 to 20 there",
        "seed_bytes",
        unit="B",
    ),
)


def memory_profile_answer(
    request: MemoryProfileRequest, snapshot: CatalogSnapshot
) -> MemoryProfileAnswer:
    """Memory in training and in inference, their ratio, and what paging and pruning save.

    Raises
    ------
    Rejected
        If the deployment or the run cannot be computed.
    """
    problems = Problems()
    constant = _USUAL_CONSTANT
    if request.activation_constant is not None:
        constant = positive(request.activation_constant, "/activation_constant", problems)
    served = compute_deployment(learnt_deployment(request, snapshot, problems))
    trained = learnt_training(_run(request), snapshot, problems)
    setup = trained.setup
    training = training_memory(
        setup.deployment, setup.micro_batch, setup.settings, trained.overheads
    )
    inference = served.memory
    steps: list[Step] = []
    pruned = _pruned(request, served, steps)
    warnings = [*served.warnings, *trained.warnings, *_warnings(request, served)]
    return {
        **frame(snapshot.revision),
        "model": served.resolved.model.id,
        "accelerator": served.resolved.accelerator.id,
        "training_total_bytes": figure(training.total_bytes),
        "inference_total_bytes": figure(inference.total_bytes),
        "training_over_inference_ratio": figure(
            quotient(training.total_bytes, inference.total_bytes)
        ),
        "training_fits": bool(training.fits),
        "inference_fits": served.fits,
        "parts": list(_parts(training, inference)),
        "activations": _activations(trained, training, constant, steps),
        "cache_reservation": _reserved(request, served, steps),
        "pruning": pruned,
        **grounds(
            snapshot,
            list(dict.fromkeys(warnings)),
            [*served.resolved.entries(), *trained.entries(snapshot)],
            (lambda: steps) if request.explain else None,
        ),
    }


def _run(request: MemoryProfileRequest) -> MemoryTrainingRequest:
    """The run of training that goes with the deployment; its parts have been checked."""
    return MemoryTrainingRequest.model_construct(
        catalog_revision=request.catalog_revision,
        as_of=request.as_of,
        calibration=request.calibration,
        calibration_revision=request.calibration_revision,
        model=request.model,
        precision=request.training_precision
        or request.precision.model_copy(update={"kv_cache": None}),
        accelerator=request.accelerator,
        platform=request.platform,
        power_limit_w=request.power_limit_w,
        accelerator_count=request.accelerator_count,
        parallelism=request.parallelism,
        training=request.training,
    )


def _parts(training: TrainingMemory, inference: InferenceMemory) -> Iterator[ProfilePart]:
    for name in (*_BOTH, *_TRAINING, *_INFERENCE):
        yield {
            "name": name.removesuffix("_bytes"),
            "training_bytes": None if name in _INFERENCE else figure(getattr(training, name)),
            "inference_bytes": None if name in _TRAINING else figure(getattr(inference, name)),
        }


def _activations(
    trained: ResolvedTraining, training: TrainingMemory, constant: Interval, steps: list[Step]
) -> SeedActivations:
    """The rule of thumb for the layers and sequences of the fullest accelerator."""
    setup = trained.setup
    architecture = setup.deployment.architecture
    batch = trained.asked
    unit = (
        float(architecture.layer_count)
        * float(setup.micro_batch.sequences)
        * float(batch.sequence_length)
        * float(architecture.hidden_size)
        * setup.deployment.precision.activations.bits_per_element
        / 8.0
    )
    seed = scale(constant, unit)
    figures = {
        "constant": constant,
        "layers": architecture.layer_count,
        "sequences": setup.micro_batch.sequences,
        "tokens": batch.sequence_length,
        "hidden_size": architecture.hidden_size,
        "bytes_per_element": setup.deployment.precision.activations.bits_per_element / 8.0,
        "seed_bytes": seed,
    }
    steps += explain(figures, SEED)
    return {
        "activation_constant": figure(constant),
        "seed_constant_bytes": figure(seed),
        "estimated_bytes": figure(exact(float(training.stored_activations_bytes))),
        "estimated_constant": figure(exact(float(training.stored_activations_bytes) / unit)),
    }


def _reserved(
    request: MemoryProfileRequest, served: ComputedDeployment, steps: list[Step]
) -> CacheReservation | None:
    deployment = served.resolved.deployment
    longest = (
        request.reserved_tokens
        or request.serving.max_model_len
        or deployment.architecture.max_position_embeddings
    )
    if longest is None or not deployment.architecture.generates:
        return None
    layouts = [
        cache_layout(
            deployment.architecture,
            deployment.precision.kv_cache,
            Parallelism(),
            block_tokens,
        )
        for block_tokens in (1, request.serving.kv_block_tokens)
    ]
    found = reservation(
        layouts[0],
        layouts[1],
        _lengths(request),
        float(longest),
        float(served.memory.concurrency_per_replica),
    )
    if not found.reserved_bytes:
        return None
    steps += explain(_told(found), RESERVATION)
    return {
        "sequences": found.sequences,
        "reserved_tokens": float(longest),
        "used_bytes_per_sequence": found.used_bytes,
        "paged_bytes_per_sequence": found.paged_bytes,
        "reserved_bytes_per_sequence": found.reserved_bytes,
        "saved_bytes": found.saved_bytes,
        "paged_waste_ratio": found.paged_waste_ratio,
        "reserved_waste_ratio": found.reserved_waste_ratio,
    }


def _told(found: Reservation) -> Mapping[str, float]:
    return {
        "sequences": found.sequences,
        "reserved_bytes": found.reserved_bytes,
        "paged_bytes": found.paged_bytes,
        "saved_bytes": found.saved_bytes,
    }


def _lengths(request: MemoryProfileRequest) -> list[tuple[float, float]]:
    """Lengths of whole sequences with their shares: those of a histogram of prompts, else one."""
    workload = request.workload
    answered, _ = mean_and_spread(workload.output_tokens)
    prompts = workload.input_tokens
    if isinstance(prompts, LengthsRequest) and prompts.tokens is not None:
        shares = prompts.shares or ()
        return [
            (tokens + answered, share) for tokens, share in zip(prompts.tokens, shares, strict=True)
        ]
    asked, _ = mean_and_spread(prompts)
    return [(asked + answered, 1.0)]


def _pruned(
    request: MemoryProfileRequest, served: ComputedDeployment, steps: list[Step]
) -> PrunedWeights | None:
    asked = request.pruning
    if asked is None:
        return None
    deployment = served.resolved.deployment
    sparsity = SEMI_STRUCTURED_RATIO if asked.sparsity_ratio is None else asked.sparsity_ratio
    weights = deployment.precision.weights
    dense = sum(float(size) for size in served.memory.weights_by_class_bytes.values())
    kept = dense
    for class_, size in served.memory.weights_by_class_bytes.items():
        if class_ in _PRUNED_CLASSES:
            ratio = float(stored_ratio(asked.structure, sparsity, weights.bits(class_)))
            kept -= float(size) * (1.0 - ratio)
    steps += explain(
        {"dense_bytes": dense, "kept_ratio": kept / dense, "pruned_bytes": kept}, PRUNED
    )
    family = deployment.accelerator.family
    cache = float(served.memory.kv_cache_bytes.value)
    skips = asked.structure == "structured" or (
        asked.structure == "2:4" and family in SEMI_STRUCTURED_FAMILIES
    )
    return {
        "structure": asked.structure,
        "sparsity_ratio": sparsity,
        "pruned_weights_bytes": kept,
        "saved_bytes": dense - kept,
        "weights_ratio": kept / dense,
        "product_time_ratio": float(product_ratio(asked.structure, sparsity, family)),
        "step_bytes_ratio": (kept + cache) / (dense + cache) if skips else 1.0,
    }


def _warnings(
    request: MemoryProfileRequest, served: ComputedDeployment
) -> Iterator[EstimateWarning]:
    asked = request.pruning
    if asked is None:
        return
    yield EstimateWarning(
        "pruning_quality_unknown",
        "what the model loses by pruning is not estimated: measure it before you rely on it",
    )
    name = served.resolved.accelerator.id
    if asked.structure == "unstructured":
        yield EstimateWarning(
            "zeros_not_skipped",
            "engines for language models compute scattered zeros like all other weights: they "
            "save space only in files",
        )
    elif asked.structure == "2:4" and served.resolved.deployment.accelerator.family not in (
        SEMI_STRUCTURED_FAMILIES
    ):
        yield EstimateWarning(
            "zeros_not_skipped", f"the matrix units of {name} cannot multiply 2:4 sparse matrices"
        )
