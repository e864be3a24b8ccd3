"""Whatever is sent ends in an architecture or in a fault that names the key."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.architecture.config import FAMILIES, ConfigNotUnderstood, parse_config
from service.core.architecture.config.fields import ALIASES, MAX_LAYERS
from service.core.architecture.model import ModelArchitecture, Span
from tests.core.architecture.published_models import MODELS, sizes

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 200)
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["auto", "full_attention", "mamba", 10**30, -1, 0])
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
_KEYS = sorted(
    {key for config, _ in MODELS.values() for key in config}
    | {key for family in FAMILIES.values() for key in family.defaults}
    | set(ALIASES)
    | {"text_config", "quantization_config", "layer_types", "mlp_only_layers", "dtype"}
    | {"moe_layers", "no_rope_layers", "attn_layer_indices", "attn_type_list", "attn_config"}
)


def understood(config: object) -> ModelArchitecture | None:
    """The architecture, or None after checking that the fault names something."""
    fault = None
    try:
        architecture = parse_config(config)  # type: ignore[arg-type]
    except ConfigNotUnderstood as raised:
        fault = raised
    if fault is not None:
        assert fault.reason
        assert fault.pointer == ("/" + fault.field if fault.field else "")
        return None
    assert architecture.total_parameters > 0
    assert 0 < architecture.active_parameters <= architecture.total_parameters
    assert 1 <= architecture.layer_count <= MAX_LAYERS
    return architecture


@settings(max_examples=400)
@given(config=st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=12))
def test_random_configurations(config):
    understood(config)


@settings(max_examples=600)
@given(
    name=st.sampled_from(sorted(MODELS)),
    spoiled=st.dictionaries(st.sampled_from(_KEYS), _VALUES, min_size=1, max_size=3),
    removed=st.sets(st.sampled_from(_KEYS), max_size=2),
)
def test_spoiled_published_configurations(name, spoiled, removed):
    config = {**MODELS[name][0], **spoiled}
    understood({key: value for key, value in config.items() if key not in removed})


@settings(max_examples=300)
@given(
    model_type=st.sampled_from(sorted(FAMILIES)),
    config=st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=4),
)
def test_every_family_on_odd_values(model_type, config):
    usual = sizes(model_type, 64, 4, 4, 100, intermediate_size=128, max_position_embeddings=64)
    understood({**usual, **config})


@settings(max_examples=200)
@given(quantized=st.dictionaries(st.text(max_size=12), _VALUES, max_size=4), method=_SCALARS)
def test_odd_quantization_never_faults(quantized, method):
    config = {**MODELS["meta-llama/Llama-3.1-8B"][0]}
    config["quantization_config"] = {"quant_method": method, **quantized}
    assert understood(config) is not None


@pytest.mark.parametrize("value", [None, [], "llama", 7, float("nan")])
def test_a_configuration_is_an_object(value):
    with pytest.raises(ConfigNotUnderstood, match="JSON object"):
        parse_config(value)


def test_defaults_go_by_the_first_of_a_quantity_s_names():
    """A default under another name would never be found."""
    second_names = {alias for aliases in ALIASES.values() for alias in aliases} - set(ALIASES)
    for model_type, family in FAMILIES.items():
        assert second_names.isdisjoint(family.defaults), model_type


LLAMA = MODELS["meta-llama/Llama-3.1-8B"][0]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"num_hidden_layers": None}, "/num_hidden_layers"),
        ({"num_hidden_layers": "32"}, "/num_hidden_layers"),
        ({"num_hidden_layers": True}, "/num_hidden_layers"),
        ({"num_hidden_layers": 32.5}, "/num_hidden_layers"),
        ({"num_hidden_layers": 0}, "/num_hidden_layers"),
        ({"num_hidden_layers": -1}, "/num_hidden_layers"),
        ({"num_hidden_layers": 10_001}, "/num_hidden_layers"),
        ({"hidden_size": 10**7}, "/hidden_size"),
        ({"hidden_size": 4095}, "/num_attention_heads"),
        ({"vocab_size": 10**9}, "/vocab_size"),
        ({"num_key_value_heads": 5}, "/num_key_value_heads"),
        ({"num_key_value_heads": 64}, "/num_key_value_heads"),
        ({"attention_bias": "yes"}, "/attention_bias"),
        ({"tie_word_embeddings": []}, "/tie_word_embeddings"),
        ({"model_type": 7}, "/model_type"),
        ({"intermediate_size": [1, 2]}, "/intermediate_size"),
    ],
)
def test_the_fault_names_the_key(change, pointer):
    with pytest.raises(ConfigNotUnderstood) as fault:
        parse_config({**LLAMA, **change})
    assert fault.value.pointer == pointer


def test_the_fault_names_nested_keys():
    with pytest.raises(ConfigNotUnderstood) as fault:
        parse_config({"model_type": "mistral3", "text_config": {**LLAMA, "vocab_size": 0}})
    assert fault.value.pointer == "/text_config/vocab_size"


def test_the_fault_uses_the_name_that_the_configuration_uses():
    gpt2 = MODELS["openai-community/gpt2"][0]
    with pytest.raises(ConfigNotUnderstood) as fault:
        parse_config({**gpt2, "n_layer": 0})
    assert fault.value.pointer == "/n_layer"


@pytest.mark.parametrize("layers", [3, 4, 5])
def test_gemma_4_without_a_window_has_full_layers_only(layers):
    """Schedules name the kind of every layer, also where all are alike."""
    config = sizes("gemma4", 64, layers, 4, 100, intermediate_size=128, max_position_embeddings=64)
    found = understood({**config, "sliding_window": None})
    assert found is not None
    assert [(group.count, group.mixer.span) for group in found.groups] == [(layers, Span.FULL)]


def test_layer_types_must_match_the_layers():
    gemma = MODELS["google/gemma-2-9b"][0]
    with pytest.raises(ConfigNotUnderstood, match="42 entries") as fault:
        parse_config({**gemma, "layer_types": ["full_attention"] * 41})
    assert fault.value.pointer == "/layer_types"
    with pytest.raises(ConfigNotUnderstood, match="unknown kind"):
        parse_config({**gemma, "layer_types": ["quantum_attention"] * 42})


def test_more_experts_a_token_than_experts():
    mixtral = MODELS["mistralai/Mixtral-8x7B-v0.1"][0]
    with pytest.raises(ConfigNotUnderstood) as fault:
        parse_config({**mixtral, "num_experts_per_tok": 9})
    assert fault.value.pointer == "/num_experts_per_tok"


@pytest.mark.parametrize(
    "keys", [("n_embd", "n_layer", "n_head"), ("d_model", "n_layers", "n_heads")]
)
def test_unknown_model_types_are_computed_with_a_warning(keys):
    hidden, layers, heads = keys
    config = {
        "model_type": "brand_new",
        hidden: 4096,
        layers: 32,
        heads: 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
    }
    found = parse_config(config)
    assert found.total_parameters == MODELS["meta-llama/Llama-3.1-8B"][1]
    assert [warning.code for warning in found.warnings] == ["unknown_model_type"]


def test_unknown_model_types_with_experts_and_latent_attention():
    config, published = MODELS["deepseek-ai/DeepSeek-V2"]
    found = parse_config({**config, "model_type": "brand_new"})
    assert found.total_parameters == published


def test_unknown_model_types_still_need_their_sizes():
    with pytest.raises(ConfigNotUnderstood) as fault:
        parse_config({"model_type": "brand_new", "hidden_size": 4096})
    assert fault.value.pointer == "/vocab_size"


def test_json_numbers_beyond_floats_do_not_pass():
    for text in ("NaN", "Infinity", "1e400"):
        with pytest.raises(ConfigNotUnderstood):
            parse_config({**LLAMA, "num_hidden_layers": json.loads(text)})
