"""What frameworks decide of what a layer keeps: norms, projections, repeated heads, 8 bits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.architecture.config import parse_config
from service.core.deployment import Deployment, Parallelism, Precision
from service.core.memory.training.activations import LayerMaking, layer_savings
from service.core.memory.training.memory import training_memory
from service.core.memory.training.narrowed import input_bytes, narrow_bytes, narrowed_weights_bytes
from service.core.memory.training.scores import score_bytes
from service.core.memory.training.settings import MicroBatch, TrainingSettings
from service.core.number_formats import NUMBER_FORMATS
from tests.core.calibrations import packaged_training_overheads
from tests.core.deployments import H100, LLAMA_70B, architecture
from tests.core.memory.memory_models import accelerator
from tests.core.memory.training.test_memory import BF16, OVERHEADS

SINGLE = Parallelism()
PLAIN = LayerMaking()
LLAMA = parse_config(LLAMA_70B)
HIDDEN, QUERIES, KEYS, WIDE = 8192, 64 * 128, 8 * 128, 28672
LORA = TrainingSettings(method="lora", adapter_dropout=True, lora_rank=16)
UNFUSED = replace(LORA, fused_kernels=False)


def stored(settings: TrainingSettings, making: LayerMaking = PLAIN) -> float:
    [savings] = layer_savings(LLAMA, SINGLE, settings, making)
    return savings.stored_bytes_per_token


def test_norms_in_pytorch_keep_a_copy_in_32_bit_and_their_result_where_they_are_trained():
    # Two norms; an unfused gate keeps one more result.
    frozen = stored(UNFUSED) - stored(replace(UNFUSED, fused_kernels=True))
    assert frozen == 2 * (4 - 2) * HIDDEN + 2 * WIDE
    full = TrainingSettings()
    trained = stored(replace(full, fused_kernels=False)) - stored(full)
    assert trained == 2 * (4 + 2 - 2) * HIDDEN + 2 * WIDE


def test_norms_with_a_bias_are_fused_and_parallel_parts_share_one():
    phi = parse_config(
        {
            "model_type": "phi",
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 2,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "vocab_size": 51200,
        }
    )
    settings = TrainingSettings(method="lora", adapter="ia3")
    fused, plain = (
        layer_savings(phi, SINGLE, replace(settings, fused_kernels=each)) for each in (True, False)
    )
    assert fused == plain
    # One norm's input; queries, keys and values; attention's output; and before the activation,
    # beside what IA3 scales.
    none = replace(settings, lora_targets=("nothing",))
    [savings] = layer_savings(phi, SINGLE, none)
    assert savings.stored_bytes_per_token == 2 * (2560 + 3 * 2560 + 2560 + 10240)


def test_an_input_that_parallel_parts_share_is_kept_once():
    sizes = {"hidden_size": 2560, "num_hidden_layers": 2, "num_attention_heads": 32}
    sizes |= {"num_key_value_heads": 32, "intermediate_size": 10240, "vocab_size": 51200}
    phi = parse_config({"model_type": "phi"} | sizes)
    [group] = phi.groups
    norms = (*group.norms, replace(group.norms[0], name="second"))
    apart = replace(phi, groups=(replace(group, norms=norms),))
    bits = LayerMaking(quantised_input_bytes=2.0)
    # A second norm keeps its input; products that get adapters keep inputs of their own.
    for settings, making in ((TrainingSettings(), PLAIN), (replace(LORA, method="qlora"), bits)):
        kept = [layer_savings(each, SINGLE, settings, making)[0] for each in (apart, phi)]
        assert kept[0].stored_bytes_per_token - kept[1].stored_bytes_per_token == (2 + 2) * 2560


def test_attention_that_is_not_fused_keeps_scores_as_softmax_dropout_and_caps_make_them():
    def kept(capped=False, wide=False, width=2.0, **settings):
        chosen = TrainingSettings(attention="eager", **settings)
        return score_bytes(chosen, width, wide=wide, capped=capped)

    dropped = {"dropout": frozenset({"attention"})}
    assert (kept(), kept(**dropped)) == (2, 2 + 1 + 2)
    assert (kept(wide=True), kept(wide=True, **dropped)) == (4 + 2, 4 + 1 + 2)
    assert (kept(wide=True, width=4.0), kept(width=4.0, **dropped)) == (4, 4 + 1 + 4)
    assert kept(capped=True) == kept() + 2
    assert kept(dropout=frozenset({"residual"})) == kept()


def test_logits_that_are_capped_keep_what_the_tangent_makes():
    body = {"model_type": "gemma2", "hidden_size": 2304, "num_hidden_layers": 2}
    body |= {"intermediate_size": 9216, "num_attention_heads": 8, "vocab_size": 256_000}
    plain = {"attn_logit_softcapping": None, "final_logit_softcapping": None}

    def run(**changed):
        deployment = Deployment(
            parse_config(body | changed), Precision(BF16, BF16, BF16), accelerator(2e11), SINGLE
        )
        settings = TrainingSettings(attention="eager", gradient_accumulation_steps=2)
        return training_memory(deployment, MicroBatch(1, 512), settings, OVERHEADS)

    capped, not_capped = run(), run(**plain)
    assert capped.moments.logits_bytes - not_capped.moments.logits_bytes == 2 * 512 * 256_000
    scores = capped.stored_activations_bytes - not_capped.stored_activations_bytes
    assert scores == pytest.approx(2 * 2 * 8 * 512**2)


def test_joint_projections_have_one_adapter_input_and_keep_the_result_of_which_values_are_part():
    apart, joint = stored(LORA), stored(LORA, LayerMaking(joint_projections=True))
    # Two of three inputs with their masks go, queries and keys are there before and after turning.
    assert joint - apart == -2 * (2 + 1) * HIDDEN + 2 * (QUERIES + KEYS)


def test_repeated_heads_are_kept_as_often_as_queries_read_them():
    repeated = stored(LORA, LayerMaking(repeated_heads=True)) - stored(LORA)
    assert repeated == 2 * 2 * (QUERIES - KEYS)


def narrow(recipe, activations="fp8", **changes):
    formats = [NUMBER_FORMATS[name] for name in ("bf16", "bf16", activations)]
    settings = TrainingSettings(fp8_recipe=recipe, **changes)
    return Deployment(LLAMA, Precision(*formats), H100, SINGLE), settings


@pytest.mark.parametrize(
    ("recipe", "kept"),
    [("delayed", 1.0), ("tensorwise", 1.0), ("blockwise", 1 + 4 / 128), ("mxfp8", 1 + 1 / 32)],
)
def test_inputs_of_products_of_8_bits_are_kept_in_8_with_their_scales(recipe, kept):
    deployment, settings = narrow(recipe)
    each = narrow_bytes(deployment, settings)
    assert each == 1.0
    assert input_bytes(each, recipe) == kept
    making = LayerMaking(input_bytes=kept)
    # Inputs of queries, of gates and of the down projection; the one of the output projection is
    # kept beside what attention puts out.
    saved = (2 - kept) * (2 * HIDDEN + WIDE) - kept * QUERIES
    assert stored(settings) - stored(settings, making) == pytest.approx(saved)


def test_narrowed_weights_have_a_second_copy_where_matrix_units_read_rows_alone():
    def held(recipe, accelerator=H100, activations="fp8", **changes):
        deployment, settings = narrow(recipe, activations, **changes)
        deployment = replace(deployment, accelerator=accelerator)
        return narrowed_weights_bytes(LLAMA, SINGLE, settings, deployment, 1.0)

    matrices = 80 * (2 * HIDDEN * QUERIES + 2 * HIDDEN * KEYS + 3 * HIDDEN * WIDE)
    assert held("tensorwise") == 2 * matrices
    # The largest values of three operands of seven matrices a layer in 1,024 steps.
    assert held("delayed") == 2 * matrices + 80 * 7 * 3 * 1024 * 4
    assert held("blockwise") == pytest.approx(2 * matrices * (1 + 4 / 128**2))
    either = replace(H100, peak_flops_per_s={**H100.peak_flops_per_s, "fp4": 9e15})
    assert held("tensorwise", either) == matrices
    assert held("mxfp8", either) == pytest.approx(2 * matrices * (1 + 1 / 32))
    assert held("tensorwise", zero_stage=3) == 0.0
    assert held("tensorwise", activations="bf16") == 0.0


def test_frameworks_that_keep_narrow_operands_trade_activations_for_copies_of_weights():
    overheads = packaged_training_overheads()

    def parts(framework, recipe):
        deployment, settings = narrow(recipe, framework=framework)
        found = training_memory(deployment, MicroBatch(1, 4096), settings, overheads)
        return found.stored_activations_bytes, found.communication_parts_bytes

    wide, _ = parts("torchtitan", "tensorwise")
    kept, messages = parts("megatron-lm", "tensorwise")
    assert kept < wide
    blocks, more = parts("megatron-lm", "mxfp8")
    assert kept < blocks < wide
    assert more["narrowed_weights"] > messages["narrowed_weights"] > 0.0


def test_a_head_of_its_own_stands_beside_tied_embeddings_and_is_quantised_with_the_base():
    tied = parse_config({**LLAMA_70B, "tie_word_embeddings": True})
    overheads = packaged_training_overheads()
    elements = 8192 * 128256
    bf16, nf4 = NUMBER_FORMATS["bf16"], NUMBER_FORMATS["bnb-nf4"]

    def held(framework, method, weights):
        deployment = Deployment(tied, Precision(weights, bf16, bf16), H100, SINGLE)
        settings = TrainingSettings(method=method, framework=framework)
        memory = training_memory(deployment, MicroBatch(1, 512), settings, overheads)
        return memory.weights_bytes.value, memory.communication_parts_bytes

    own, _ = held("litgpt", "lora", bf16)
    shared, _ = held("torchtune", "lora", bf16)
    assert own - shared == pytest.approx(2 * elements)
    quantised, buffers = held("litgpt", "qlora", nf4)
    plain, others = held("torchtune", "qlora", nf4)
    assert quantised - plain == pytest.approx(elements * nf4.bits_per_element / 8)
    # The head is the largest matrix that is turned into 16 bit, instead of a gate.
    assert buffers["dequantised_matrix"] == 2 * elements
    assert others["dequantised_matrix"] == 2 * HIDDEN * WIDE


def test_what_experts_put_out_is_kept_unless_probabilities_come_before():
    settings, mixtral = TrainingSettings(), architecture("mixtral-8x7b")
    after, before = (
        layer_savings(mixtral, Parallelism(), settings, LayerMaking(weighs_activations=within))[0]
        for within in (False, True)
    )
    # Two experts of each token, 4,096 features in 16 bit.
    saved = after.stored_bytes_per_token - before.stored_bytes_per_token
    assert saved == pytest.approx(2 * 4096 * 2)


def test_inputs_that_are_gathered_stay_whole_where_autograd_keeps_what_products_read():
    """DTensor's products read gathered inputs; Megatron gathers them again."""
    layout, settings = Parallelism(tensor=8), TrainingSettings()

    def kept(making):
        [savings] = layer_savings(LLAMA, layout, settings, making)
        return savings.stored_bytes_per_token

    # Both parts of a layer have an input, of which a rank has an eighth.
    whole = LayerMaking(keeps_gathered=True)
    assert kept(whole) - kept(PLAIN) == 2 * 2.0 * HIDDEN * 7 / 8
    # Ranks that hold all of it gather nothing.
    undivided = replace(settings, sequence_parallel=False)
    [plain], [held] = (layer_savings(LLAMA, layout, undivided, making) for making in (PLAIN, whole))
    assert plain == held
