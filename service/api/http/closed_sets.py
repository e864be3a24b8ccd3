"""Closed sets of values, each one type in the OpenAPI document wherever it stands.

Generators of clients make a type of every list of values that has no name of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

#: A field whose values each type has, by the type's name: schema and property.
NAMED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "ActivationCheckpointing": ("TrainingSettings", "activation_checkpointing"),
        "ActivationOffload": ("TrainingOffload", "activations"),
        "AdapterKind": ("TrainingSettings", "adapter"),
        "Amortisation": ("Hardware", "amortisation"),
        "Arrivals": ("Workload", "arrivals"),
        "AttentionKernel": ("TrainingSettings", "attention"),
        "CalibrationMode": ("CalibrationUsed", "mode"),
        "CertaintyOfFit": ("Memory", "fits_certainty"),
        "ChartFormat": ("StyleRequest", "format"),
        "ChartPhases": ("MemoryChartRequest", "phases"),
        "ChartTheme": ("StyleRequest", "theme"),
        "ClaimVerdict": ("ClaimEntry", "verdict"),
        "Comparison": ("RuleCondition", "comparison"),
        "ConfidenceOfChoice": ("Choice", "confidence"),
        "CoolingKind": ("SiteRequest", "cooling"),
        "CostBasis": ("TotalCost", "basis"),
        "CrossEntropy": ("TrainingSettings", "cross_entropy"),
        "DpoReference": ("DpoRequest", "reference"),
        "EightBitFormat": ("TrainingSettings", "weight_gather_dtype"),
        "ElectricityMatching": ("Electricity", "matching"),
        "ExpertDispatch": ("TrainingSettings", "expert_dispatch"),
        "RowsKept": ("SweepRequest", "keep"),
        "FigureKind": ("CatalogFigure", "kind"),
        "FleetSubject": ("FleetChartRequest", "shows"),
        "FloatFormat": ("TrainingSettings", "gradient_dtype"),
        "Fp8Recipe": ("TrainingSettings", "fp8_recipe"),
        "FunctionalUnit": ("DisclosureRequest", "functional_unit"),
        "GenerationPlacement": ("GenerationRequest", "placement"),
        "GradientSum": ("TrainingSettings", "gradient_sum_dtype"),
        "GrpoReference": ("GrpoRequest", "kl_reference"),
        "ImpactBasis": ("RegionsChartRequest", "basis"),
        "ImpactKind": ("RegionsChartRequest", "impact"),
        "IncludeGrounds": ("ComplianceRequest", "include"),
        "IncludeOfImpacts": ("ImpactsRequest", "include"),
        "IncludeOfInference": ("InferenceRequest", "include"),
        "IncludeOfInferenceMemory": ("MemoryInferenceRequest", "include"),
        "IncludeOfLatency": ("LatencyInferenceRequest", "include"),
        "IncludeOfRecommendations": ("RecommendationRequest", "include"),
        "IncludeOfTraining": ("EstimateTrainingRequest", "include"),
        "IncludeOfTrainingMemory": ("MemoryTrainingRequest", "include"),
        "HardwareLimit": ("SpeedLimits", "ttft_limit"),
        "KeyScope": ("ApiKey", "scopes"),
        "KindOfParallelism": ("EngineRecipes", "degrees"),
        "LatencyFigure": ("ThroughputChartRequest", "latency"),
        "MeasurementKind": ("Measurement", "kind"),
        "Metric": ("ComparedMetric", "metric"),
        "Mounting": ("SiteRequest", "mounting"),
        "NumberFormat": ("PrecisionRequest", "weights"),
        "OfferPlacement": ("SearchRequest", "placement"),
        "Optimizer": ("TrainingSettings", "optimizer"),
        "OptimizerOffload": ("TrainingOffload", "optimizer"),
        "Percentile": ("DecisionLimits", "percentile"),
        "PipelineSchedule": ("TrainingSettings", "pipeline_schedule"),
        "PlaceOfHardware": ("WorkloadKind", "where"),
        "PoolOfStep": ("AcceleratorPool", "pool"),
        "PriceKind": ("CostRequest", "price_kind"),
        "Priority": ("Choice", "priorities"),
        "PurchasePriceKind": ("CatalogFigure", "price_kind"),
        "ReceptorZone": ("RuleFacts", "receptor_zone"),
        "ReportRole": ("DisclosureRequest", "role"),
        "RuleEffect": ("RuleEntry", "effect"),
        "RuleStatus": ("RuleEntry", "status"),
        "RuleSubject": ("RuleEntry", "subject"),
        "RulesRequired": ("RulesLimit", "require"),
        "SavedPartName": ("SavedPart", "part"),
        "SensitivityFigure": ("SensitivityChartRequest", "figure"),
        "ServingBackend": ("ServingRequest", "backend"),
        "SiteClass": ("PlatformEntry", "site_class"),
        "SoundPropagation": ("NoiseLimit", "propagation"),
        "Sparsity": ("PrunedWeights", "structure"),
        "SweepStatus": ("Sweep", "status"),
        "Task": ("Workload", "task"),
        "TeacherPlacement": ("TeacherRequest", "placement"),
        "TechniqueReach": ("Mitigation", "reach"),
        "TechniqueUse": ("TechniqueEntry", "applies_to"),
        "ThroughputPhases": ("ThroughputChartRequest", "phases"),
        "TrainingBottleneck": ("LatencyTrainingAnswer", "bottleneck"),
        "TrainingMethod": ("TrainingSettings", "method"),
        "UsageContext": ("Serving", "usage_context"),
        "WorkloadKindName": ("RecommendationRequest", "workload_kind"),
    }
)
#: What a list of values says of its type, which its name says in its place.
_TOLD_BY_NAME = ("enum", "type", "title", "minLength", "maxLength")


def name_closed_sets(document: dict[str, Any]) -> None:
    """Give each closed set of the document a schema, and refer to it wherever it stands."""
    schemas = document["components"]["schemas"]
    named: dict[tuple[Any, ...], str] = {}
    for name, (schema, field) in NAMED.items():
        found = next(values_in(schemas[schema]["properties"][field]))
        named[tuple(found["enum"])] = name
    for holder in (document["paths"], schemas):
        for part in [*values_in(holder)]:
            name = named.get(tuple(part["enum"]), "")
            if name:
                for told in _TOLD_BY_NAME:
                    part.pop(told, None)
                part["$ref"] = f"#/components/schemas/{name}"
    for values, name in named.items():
        schemas[name] = {"type": "string", "enum": list(values), "title": name}


def values_in(part: Any) -> Iterator[dict[str, Any]]:
    """Schemas below a part of the document that list the values they take."""
    if isinstance(part, list):
        for one in part:
            yield from values_in(one)
    elif isinstance(part, dict):
        if isinstance(part.get("enum"), list):
            yield part
        for one in part.values():
            yield from values_in(one)
