"""The server: a few tools, chosen so that an assistant can tell them apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from service import ENGINE_VERSION
from service.client.estimator import EstimatorClient, NotReached, Refused
from service.estimation.use_cases import USE_CASES
from service.mcp import digests
from service.mcp.bodies import body

_INSTRUCTIONS = """\
Headroom estimates what an LLM deployment needs and costs before it is bought: memory per
accelerator, latency, energy, carbon, water. Figures are {"value", "low", "high"} with a 90 %
interval; units are in their names (GB are 1e9 bytes). Pass warnings on to the user. What is null or
missing is not known, not zero."""

Model = Annotated[
    str | dict[str, Any],
    Field(
        description="Catalog id or alias (llama-3.1-70b), hf:organisation/name for a model on the "
        'Hugging Face Hub, or {"config": …} with a config.json.'
    ),
]
Accelerator = Annotated[
    str, Field(description="Catalog id or alias, e.g. h100; look_up_catalog finds others.")
]
Region = Annotated[
    str, Field(description="Cloud region (aws/eu-north-1), country (country/SE) or grid zone.")
]
Count = Annotated[int | None, Field(description="Accelerators of all replicas together.")]
Weights = Annotated[
    str | None,
    Field(
        description="bf16, fp8, int4, awq-int4, gguf-q4_k_m, …; null: the format of the checkpoint."
    ),
]
Tokens = Annotated[int | None, Field(description="Tokens per request.")]
Concurrency = Annotated[int | None, Field(description="Requests in flight over all replicas.")]
Rate = Annotated[float | None, Field(description="Arrival rate, instead of concurrency.")]
Arrivals = Annotated[
    Literal["spread", "at_once"] | None,
    Field(
        description="at_once: concurrency requests come together to idle replicas, and none after "
        "them. Without it another comes for each that is answered."
    ),
]
Limit = float | None
Collection = Literal[
    "accelerators",
    "platforms",
    "models",
    "regions",
    "memory-tiers",
    "interconnects",
    "instances",
    "engines",
]
#: Questions about one thing that have no tool of their own.
Question = Annotated[
    str,
    Field(
        json_schema_extra={"enum": [path for path, case in USE_CASES.items() if not case.searches]}
    ),
]


def mcp_server(estimator: EstimatorClient) -> MCPServer[Any]:
    """The server whose tools ask an estimator."""
    server: MCPServer[Any] = MCPServer(
        "headroom",
        title="Headroom",
        instructions=_INSTRUCTIONS,
        version=ENGINE_VERSION,
        log_level="WARNING",
    )
    read_only = ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    tools = Tools(estimator)
    for tool in (
        *(tools.fit_and_speed, tools.footprint, tools.recommend, tools.look_up_catalog),
        tools.ask_question,
    ):
        server.add_tool(tool, annotations=read_only)
    return server


class Tools:
    """The tools; their descriptions and arguments are what an assistant sees of them."""

    def __init__(self, estimator: EstimatorClient) -> None:
        self._estimator = estimator

    async def fit_and_speed(
        self,
        model: Model,
        accelerator: Accelerator,
        accelerator_count: Count = None,
        weights: Weights = None,
        input_tokens: Tokens = None,
        output_tokens: Tokens = None,
        concurrency: Concurrency = None,
        requests_per_s: Rate = None,
        arrivals: Arrivals = None,
        training: Annotated[
            Literal["full", "lora", "qlora"] | None,
            Field(description="Estimate a training run with this method instead of serving."),
        ] = None,
        sequence_length: Annotated[int | None, Field(description="Training only.")] = None,
        zero_stage: Annotated[int | None, Field(description="Training only: 0 to 3.")] = None,
    ) -> dict[str, Any]:
        """Whether a model fits on accelerators, and how fast it serves or trains there.

        Tells memory per accelerator by what takes it, latency and throughput, and, if it does not
        fit, plans that would make it fit.
        """
        asked = {
            "model": model,
            "accelerator": accelerator,
            "accelerator_count": accelerator_count,
            "precision.weights": weights,
            "workload.input_tokens": input_tokens,
            "workload.output_tokens": output_tokens,
            "workload.concurrency": concurrency,
            "workload.requests_per_s": requests_per_s,
            "workload.arrivals": arrivals,
            "training.method": training,
            "training.sequence_length": sequence_length,
            "training.zero_stage": zero_stage,
        }
        kind = "inference" if training is None else "training"
        return digests.memory_and_speed(
            await self._ask_for_digest(f"memory/{kind}", body(asked)),
            await self._ask_for_digest(f"latency/{kind}", body(asked)),
        )

    async def footprint(
        self,
        region: Region,
        model: Annotated[Model | None, Field(description="See fit_and_speed.")] = None,
        accelerator: Accelerator | None = None,
        accelerator_count: Count = None,
        weights: Weights = None,
        input_tokens: Tokens = None,
        output_tokens: Tokens = None,
        concurrency: Concurrency = None,
        requests_per_s: Rate = None,
        arrivals: Arrivals = None,
        energy_kwh: Annotated[
            float | None, Field(description="IT energy, instead of a deployment.")
        ] = None,
        accelerator_hours: Annotated[
            float | None, Field(description="Accelerator time, instead of a model.")
        ] = None,
    ) -> dict[str, Any]:
        """Energy, carbon (operation and manufacturing), water and waste in a place.

        Of a model that is served on accelerators, of plain energy, or of accelerator time; per
        request, per 1,000 tokens and per year.
        """
        asked = {
            "region": region,
            "model": model,
            "accelerator": accelerator,
            "accelerator_count": accelerator_count,
            "precision.weights": weights,
            "workload.input_tokens": input_tokens,
            "workload.output_tokens": output_tokens,
            "workload.concurrency": concurrency,
            "workload.requests_per_s": requests_per_s,
            "workload.arrivals": arrivals,
            "energy_kwh": energy_kwh,
            "accelerator_hours": accelerator_hours,
        }
        return digests.impacts(await self._ask_for_digest("impacts", body(asked)))

    async def recommend(
        self,
        model: Model,
        workload_kind: Annotated[
            Literal["batch-inference", "real-time-inference", "agentic", "sustainable", "edge"],
            Field(description="Decides the weights of the metrics."),
        ] = "real-time-inference",
        input_tokens: Tokens = None,
        output_tokens: Tokens = None,
        requests_per_s: Rate = None,
        ttft_s: Annotated[Limit, Field(description="Longest time to the first token.")] = None,
        tpot_s: Annotated[Limit, Field(description="Longest time between tokens.")] = None,
        percentile: Annotated[
            Literal["mean", "p50", "p95", "p99"] | None,
            Field(description="What of these times is limited, with requests_per_s; null: means."),
        ] = None,
        usd_per_hour: Annotated[
            Limit, Field(description="Highest rent of all accelerators together.")
        ] = None,
        kgco2e_per_year: Annotated[Limit, Field(description="Highest emissions.")] = None,
        weight_bits_at_least: Annotated[Limit, Field(description="Coarsest weights.")] = None,
        accelerators: Annotated[
            list[str] | None, Field(description="Choose from these; null: the whole catalog.")
        ] = None,
        regions: Annotated[
            list[str] | None, Field(description="Choose from these; null: all cloud regions.")
        ] = None,
        max_accelerators: int | None = None,
    ) -> dict[str, Any]:
        """What to buy or rent for a model, where, and configured how.

        Searches accelerators, counts, layouts, number formats and regions under hard limits, and
        names the best choices (balanced, cheapest, fastest, lowest carbon and water, smallest) with
        the reasons.
        """
        asked = {
            "model": model,
            "workload_kind": workload_kind,
            "workload.input_tokens": input_tokens,
            "workload.output_tokens": output_tokens,
            "workload.requests_per_s": requests_per_s,
            "limits.ttft_s": ttft_s,
            "limits.tpot_s": tpot_s,
            "limits.percentile": percentile,
            "limits.usd_per_hour": usd_per_hour,
            "limits.kgco2e_per_year": kgco2e_per_year,
            "limits.weight_bits_at_least": weight_bits_at_least,
            "search.accelerators": accelerators,
            "search.regions": regions,
            "search.max_accelerators": max_accelerators,
        }
        return digests.choices(await self._ask_for_digest("recommendations", body(asked)))

    async def look_up_catalog(
        self,
        collection: Collection,
        text: Annotated[str, Field(description="In id, name or alias.", max_length=200)] = "",
        limit: Annotated[int, Field(ge=1, le=50)] = 10,
    ) -> dict[str, Any]:
        """Entries of the reviewed catalog with their figures and who states them.

        Finds ids for the other tools, and facts: memory, bandwidth and power of accelerators, grid
        intensity of regions, parameters of models, prices of instances.
        """
        try:
            return {"items": await self._estimator.look_up(collection, text, limit)}
        except (Refused, NotReached) as error:
            raise ToolError(str(error)) from None

    async def ask_question(
        self,
        question: Question,
        request: Annotated[
            dict[str, Any],
            Field(description="The fields of the question; a wrong one is answered with its name."),
        ],
    ) -> dict[str, Any]:
        """Questions that no other tool asks, by their path and fields in the API.

        social-licence ({"region"}), compliance ({"region", "on"}), projections of a training run
        against inference, memory/stores of vectors, memory/near-memory (models in on-chip memory)
        and what else the API answers about one thing.
        """
        if question not in USE_CASES or USE_CASES[question].searches:
            raise ToolError(f"no such question: {question[:80]}")
        return await self._ask(question, request)

    async def _ask_for_digest(self, question: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """An answer with all that its digest reads."""
        return await self._ask(question, {**asked, "include": digests.INCLUDED[question]})

    async def _ask(self, question: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return await self._estimator.ask(question, asked)
        except Refused as refused:
            raise ToolError(_told(refused.problem)) from None
        except NotReached as error:
            raise ToolError(str(error)) from None


def _told(problem: Mapping[str, Any]) -> str:
    """A problem in words that an assistant can act on: every field, and what it would take."""
    errors = problem.get("errors") or ()
    listed = [f"{error['pointer'] or 'request'}: {error['detail']}" for error in errors]
    return "\n".join(listed) or str(problem.get("detail") or problem.get("title"))
