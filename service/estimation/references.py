"""What requests are made of: their base, and ways to refer to models, accelerators and places.

Unknown fields, numbers that are not finite and sizes beyond reason are refused here, once, for
HTTP, command line and workers alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    Tag,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from service.catalog.entries.release_names import file_format
from service.catalog.entries.specs import FIGURES
from service.core.number_formats import NUMBER_FORMATS
from service.estimation.nearest import hint, nearest


class Request(BaseModel):
    """Base of everything a caller sends: closed, immutable, finite numbers only."""

    # Of some hundred models, a process needs a few: each is built when it is first used.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


@dataclass(frozen=True, slots=True)
class RenamedField:
    """Marks a field of a question that has another name since a day (YYYY-MM-DD): use ``name``."""

    name: str
    since: str

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The schema of the field, which goes away."""
        return {**handler(schema), "deprecated": True}


class CatalogRequest(Request):
    """Base of questions that the catalog takes part in answering."""

    catalog_revision: int | None = Field(None, ge=0, le=2**53)
    """Answer from this revision of the catalog."""
    as_of: date | None = None
    """Answer from the catalog as it stood at the end of this day (UTC); instead of
    catalog_revision."""
    calibration: Literal["own", "published"] | None = None
    """own: corrected by what your organisation has reported with POST /v1/measurements; published:
    by published measurements alone. If null, own where the API key's organisation has reports."""
    calibration_revision: int | None = Field(None, ge=0, le=2**53)
    """Correct by the reports of this revision, as an answer's calibration.revision names it."""


def separated(given: object) -> object:
    """Parts given as a list, or as one text separated by commas."""
    if isinstance(given, str):
        return tuple(part.strip() for part in given.split(",") if part.strip())
    return tuple(given) if isinstance(given, list) else given


#: What frameworks and checkpoints call formats, in small letters; GGUF's names need no table.
_ALSO_CALLED = {
    **dict.fromkeys(("float32", "f32", "single"), "fp32"),
    **dict.fromkeys(("float16", "f16", "half"), "fp16"),
    "bfloat16": "bf16",
    **dict.fromkeys(("float8", "fp8_e4m3", "float8_e4m3fn", "e4m3"), "fp8"),
    "awq": "awq-int4",
    **dict.fromkeys(("awq-gemv", "awq_gemv"), "awq-int4-gemv"),
    "gptq": "gptq-int4",
    "nf4": "bnb-nf4",
}
#: What formats of which there are many begin with.
_IN_FAMILIES = ("gguf-", "exl2-", "exl3-")
#: Names that mean more than a format.
_MEANT = {
    "mxfp8": "; use fp8, and in training activations fp8 with training.fp8_recipe mxfp8",
    "4bit": "; name the kind: int4, awq-int4, gptq-int4, bnb-nf4, gguf-q4_k_m or mlx-4bit",
    "fp4": "; name the kind: nvfp4 or mxfp4",
}


def _known_format(given: str) -> str:
    """The id of a format by its id, by a type of GGUF files (Q4_K_M), or as frameworks call it."""
    typed = given.strip().casefold()
    name = typed if typed in NUMBER_FORMATS else _ALSO_CALLED.get(typed, given)
    if name not in NUMBER_FORMATS:
        name = file_format(typed) or name
    if name not in NUMBER_FORMATS:
        near = nearest(name, NUMBER_FORMATS)
        known = ", ".join(one for one in NUMBER_FORMATS if not one.startswith(_IN_FAMILIES))
        meant = _MEANT.get(typed, hint(near))
        raise PydanticCustomError(
            "unknown_format",
            "{text}",
            {
                "text": f"unknown number format{meant} (known: {known}, types of GGUF files such "
                "as Q4_K_M, and exl2 and exl3 such as exl2-4.0bpw)",
                "suggestions": near,
            },
        )
    return name


Reference = Annotated[str, Field(min_length=1, max_length=200)]
FormatName = Annotated[
    str,
    Field(min_length=1, max_length=40, json_schema_extra={"enum": list(NUMBER_FORMATS)}),
    AfterValidator(_known_format),
]
#: Marks a reference to an engine in a JSON Schema, with what the engine has to run.
ENGINES_OF = "x-engines-of"
EngineReference = Annotated[Reference, Field(json_schema_extra={ENGINES_OF: "inference"})]
FrameworkReference = Annotated[Reference, Field(json_schema_extra={ENGINES_OF: "training"})]
#: A version, a date, or a name of a generation of an engine.
ReleaseText = Annotated[str, Field(min_length=1, max_length=60)]
Degree = Annotated[int, Field(ge=1, le=100_000)]
Ratio = Annotated[float, Field(ge=0.0, le=1.0)]
#: Limit of power of one accelerator [W].
PowerLimit = Annotated[float, Field(gt=0.0, le=1e6)]
SiteClass = Literal["hyperscale", "colocation", "enterprise", "office", "home"]


class ModelConfig(Request):
    """A Hugging Face ``config.json`` as it is."""

    config: dict[str, JsonValue] = Field(min_length=1, max_length=500)
    """Content of config.json, pasted in full."""
    safetensors_index: dict[str, JsonValue] | None = Field(
        None, min_length=1, max_length=100, examples=[{"metadata": {"total_size": 16060522496}}]
    )
    """Content of model.safetensors.index.json (its weight_map may be left out), or {"parameters":
    {"BF16": …}} as the Hub summarises safetensors files. The size of the files is compared with the
    configuration; what the configuration does not describe is counted, too."""


class HubModel(Request):
    """A model on the Hugging Face Hub, whose ``config.json`` is fetched."""

    hub: Reference = Field(examples=["meta-llama/Llama-3.1-70B"])
    """Its name on the Hub; the text hf:organisation/name means the same,
    hf:organisation/name@revision adds the revision."""
    revision: Reference = "main"
    """Branch, tag or commit; the answer names the commit that was used."""


class FetchedModel(HubModel):
    """A model of the Hub with what was fetched; ``revision`` is the commit.

    Made by whoever fetches, never by a caller. Written out, it is the reference alone.
    """

    config: dict[str, JsonValue] = Field(min_length=1, max_length=500)
    safetensors_index: dict[str, JsonValue] | None = None
    url: str
    year: int
    may_be_old: bool


#: What references to the Hub begin with, where they are texts.
HUB_PREFIX = "hf:"

#: Tags of the ways to refer to something; they stand in error locations and mean no field.
BY_ID, IN_LINE, ON_HUB = "by-id", "in-line", "on-hub"
#: Tags of requests within a measurement, by what was measured.
OF_INFERENCE, OF_TRAINING, OF_IMPACTS = "of-inference", "of-training", "of-impacts"
TAGS = frozenset((BY_ID, IN_LINE, ON_HUB, OF_INFERENCE, OF_TRAINING, OF_IMPACTS))


def _reference_or_object(given: object) -> str:
    return BY_ID if isinstance(given, str) else IN_LINE


def number_or_object(given: object) -> str:
    """Tag of a number, or of an object in its place."""
    return IN_LINE if isinstance(given, dict | BaseModel) else BY_ID


def _reference_to_model(given: object) -> str:
    if isinstance(given, str):
        return BY_ID
    on_hub = "hub" in given if isinstance(given, dict) else isinstance(given, HubModel)
    return ON_HUB if on_hub else IN_LINE


#: Chooses by the JSON type, so that only the errors of the form that was meant are reported.
EITHER = Discriminator(_reference_or_object)


class StatedFigure(Request):
    """A figure with its 90 % interval."""

    value: float
    """Central estimate, in the unit of the field that holds it."""
    low: float | None = None
    """Lower end of the central 90 % interval; if null, the value itself."""
    high: float | None = None
    """Upper end of the central 90 % interval; if null, the value itself."""


Figure = Annotated[
    Annotated[float, Tag(BY_ID)] | Annotated[StatedFigure, Tag(IN_LINE)],
    Discriminator(number_or_object),
]


class InlineAccelerator(Request):
    """An accelerator that is not in the catalog, with the fields of a catalog entry."""

    id: Reference | None = None
    """Id in the answer; if null, inline."""
    name: Reference | None = None
    """Display name; if null, the id."""
    vendor: Reference | None = None
    """Manufacturer; affects no figure."""
    family: Reference | None = None
    """Hardware family whose measured efficiencies apply, such as nvidia-hopper. If null, typical
    values with a wider interval."""
    form_factor: Reference | None = None
    """sxm, oam or superchip for a module, pcie for a card. It decides mass and embodied emissions
    if figures does not give them."""
    release_year: int | None = Field(None, ge=1990, le=2100)
    """Year of release; affects no figure."""
    memory_technology: Reference | None = None
    """Kind of memory, e.g. HBM3; affects no figure."""
    unified_memory: bool = False
    """Whether host and accelerator share one memory, so that offloading to the host gains
    nothing."""
    scale_up_link: Reference | None = None
    """Name of the link between accelerators; its bandwidth is
    figures.scale_up_bandwidth_bytes_per_s."""
    scale_up_domain_accelerators: int | None = Field(None, ge=1, le=100_000)
    """Accelerators that the fast link connects; if null, the catalog's default."""
    figures: dict[str, Figure] = Field(
        description=f"{', '.join(FIGURES['accelerators'])}, in the units of their names.",
        max_length=40,
    )


class InlinePlatform(Request):
    """A machine that is not in the catalog, with the fields of a catalog entry."""

    id: Reference | None = None
    """Id in the answer; if null, inline."""
    name: Reference | None = None
    """Display name; if null, the id."""
    like: Reference | None = Field(None, examples=["workstation"])
    """Catalog platform whose figures are used where none are given here; without it,
    figures.host_idle_w and figures.host_load_w are required."""
    site_class: SiteClass | None = None
    """Kind of site that it stands in. If null, as for the platform in like."""
    accelerators: int | None = Field(None, ge=1, le=100_000)
    """Number of accelerators in one machine. If null, as for the platform in like, otherwise 1."""
    shared: bool | None = None
    """Whether the machine's remaining accelerators are used by others."""
    integrated: bool | None = None
    """Whether the accelerator's power figures are those of the whole machine."""
    contains_accelerators: bool | None = None
    """Whether the machine's manufacturing emissions and mass include the accelerators. If null, as
    integrated."""
    peer_to_peer: bool | None = None
    """Whether accelerators can reach each other's memory directly, not through the host's
    memory."""
    scale_up_link: Reference | None = None
    """Link between the accelerators. Names that begin with pcie are slots, and cards run at the
    lower speed of slot and card. Other links replace the accelerators' own."""
    scale_up_domain_accelerators: int | None = Field(None, ge=1, le=100_000)
    """Number of accelerators that the link connects. If null, all of the machine."""
    figures: dict[str, Figure] = Field(
        default_factory=dict,
        description=f"{', '.join(FIGURES['platforms'])}, in the units of their names.",
        max_length=40,
    )


class FacilityRequest(Request):
    """The building that the hardware stands in."""

    site_class: SiteClass | None = None
    """Kind of site, whose usual PUE is used. If null, the PUE that the region or its operator
    states, otherwise that of the kind of site in which the platform usually stands."""
    pue_ratio: float | None = Field(None, ge=1.0, le=10.0)
    """PUE of the site. It takes precedence over all others."""


class CoolingTower(Request):
    """Evaporative cooling, from which on-site water follows where no WUE is known."""

    wet_bulb_celsius: float = Field(ge=-40.0, le=40.0)
    """Mean wet-bulb temperature of the site."""
    cycles_of_concentration: float = Field(6.0, gt=1.0, le=20.0)
    """How often water is reused before it is blown down."""
    evaporative_ratio: Ratio = 1.0
    """Share of hours with evaporation."""


class InlineRegion(Request):
    """A place that is not in the catalog, with the fields of a catalog entry."""

    id: Reference | None = None
    """Id in the answer; if null, inline."""
    name: Reference | None = None
    """Display name; if null, the id."""
    country: str | None = Field(None, min_length=2, max_length=2)
    """ISO 3166-1 alpha-2 code, which decides which rules apply; if null, that of the parent."""
    parent: Reference | None = None
    """Catalog region whose figures are used where none are given here."""
    figures: dict[str, Figure] = Field(
        default_factory=dict,
        description=f"{', '.join(FIGURES['regions'])}, in the units of their names.",
        max_length=20,
    )
    cooling: CoolingTower | None = None
    """Used for water on site if figures have no wue_l_per_kwh."""


ModelReference = Annotated[
    Annotated[Reference, Tag(BY_ID)]
    | Annotated[ModelConfig, Tag(IN_LINE)]
    | Annotated[HubModel, Tag(ON_HUB)],
    Discriminator(_reference_to_model),
]
AcceleratorReference = Annotated[
    Annotated[Reference, Tag(BY_ID)] | Annotated[InlineAccelerator, Tag(IN_LINE)], EITHER
]
PlatformReference = Annotated[
    Annotated[Reference, Tag(BY_ID)] | Annotated[InlinePlatform, Tag(IN_LINE)], EITHER
]
RegionReference = Annotated[
    Annotated[Reference, Tag(BY_ID)] | Annotated[InlineRegion, Tag(IN_LINE)], EITHER
]
