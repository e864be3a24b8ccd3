"""Dashboard, alerts and scraping ask for metrics that the service has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from asgi_lifespan import LifespanManager
from prometheus_client.parser import text_string_to_metric_families

from service.api.app import create_app
from service.settings import Settings

PROJECT_FOLDER = Path(__file__).parents[2]
DEPLOY = PROJECT_FOLDER / "deploy"
#: Words of PromQL that stand where a metric could; functions are known by their parenthesis.
WORDS = {"and", "or", "unless", "by", "without", "on", "ignoring", "offset", "bool"}
#: What Prometheus itself makes for every scrape.
BY_PROMETHEUS = {"up"}


def metrics_in(expression: str) -> set[str]:
    """The names of metrics in a PromQL expression."""
    bare = re.sub(r'"[^"]*"', "", expression)
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]", " ", bare)
    bare = re.sub(r"\b(by|without|on|ignoring)\s*\([^)]*\)", " ", bare)
    names = re.findall(r"(?<![\w.:$])([a-zA-Z_:][\w:]*)\b(?!\s*\()", bare)
    return set(names) - WORDS


def test_metrics_are_recognised() -> None:
    expression = (
        'histogram_quantile(0.99, sum by (le, route) (rate(a_bucket{x="b(c)"}[5m])))'
        " / on (job) (job:d:rate5m > 0.5e3) or 0 * time() and up"
    )
    assert metrics_in(expression) == {"a_bucket", "job:d:rate5m", "up"}


@pytest.fixture(scope="module")
async def exposed() -> set[str]:
    """Every name that a service with a limit and a region exposes."""
    settings = Settings(
        embedded_database=False, log_level="error", concurrency_limit=5, region="aws/eu-north-1"
    )
    app = create_app(settings)
    async with LifespanManager(app, startup_timeout=None):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            await client.get("/livez")
            text = (await client.get("/metrics")).text
    return {
        sample.name for family in text_string_to_metric_families(text) for sample in family.samples
    }


@pytest.fixture(scope="module")
def rules() -> list[dict[str, Any]]:
    content = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())
    return [rule for group in content["groups"] for rule in group["rules"]]


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DEPLOY / "grafana" / "headroom.json").read_text())
    return content


def recorded(rules: list[dict[str, Any]]) -> set[str]:
    return {rule["record"] for rule in rules if "record" in rule}


def test_rules_ask_for_what_there_is(rules: list[dict[str, Any]], exposed: set[str]) -> None:
    known = exposed | recorded(rules) | BY_PROMETHEUS
    for rule in rules:
        assert metrics_in(rule["expr"])
        assert metrics_in(rule["expr"]) <= known, rule


def test_the_dashboard_asks_for_what_there_is(
    dashboard: dict[str, Any], rules: list[dict[str, Any]], exposed: set[str]
) -> None:
    known = exposed | recorded(rules) | BY_PROMETHEUS
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked = {name for expression in expressions for name in metrics_in(expression)}
    assert asked <= known
    assert recorded(rules) <= asked
    assert all('job="$job"' in expression for expression in expressions)


def test_every_metric_of_our_own_is_looked_at(
    dashboard: dict[str, Any], rules: list[dict[str, Any]], exposed: set[str]
) -> None:
    written = json.dumps([dashboard, rules])
    own = {name for name in exposed if name.startswith("headroom_")}
    own = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in own}
    assert {name for name in own if name not in written} <= {"headroom_estimate_basis_info"}


def test_alerts_say_what_to_do(rules: list[dict[str, Any]]) -> None:
    manual = (PROJECT_FOLDER / "docs" / "operations.md").read_text()
    headings = {line.lstrip("# ").strip() for line in manual.splitlines() if line.startswith("#")}
    alerts = [rule for rule in rules if "alert" in rule]
    assert alerts
    for alert in alerts:
        assert alert["alert"] in headings
        assert alert["annotations"]["runbook"] == f"docs/operations.md#{alert['alert'].lower()}"
        assert alert["annotations"]["summary"]
        assert alert["labels"]["severity"] in {"warning", "critical"}


def panels_that_overlap(panels: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    taken: dict[tuple[int, int], str] = {}
    for panel in panels:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                if (x, y) in taken:
                    yield taken[x, y], panel["title"]
                taken[x, y] = panel["title"]


def test_panels_have_room(dashboard: dict[str, Any]) -> None:
    panels = dashboard["panels"]
    assert not list(panels_that_overlap(panels))
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in panels)
