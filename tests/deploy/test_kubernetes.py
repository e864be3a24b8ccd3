"""The Kubernetes manifests are sound by Kubernetes' own schemas, and fit each other."""

from __future__ import annotations

import copy
from typing import Any

import kubernetes_validate
import pytest
import yaml

from service import ENGINE_VERSION
from service.settings import INSTALLATION, Settings
from tests.architecture.test_packaging import environment_names

FOLDER = INSTALLATION / "deploy" / "kubernetes"
Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def manifests() -> dict[str, Manifest]:
    """All manifests by kind; there is one of each, and a deployment of workers."""
    found = [
        manifest
        for file in sorted(FOLDER.glob("*.yaml"))
        for manifest in yaml.safe_load_all(file.read_text())
    ]
    workers = [one for one in found if one.get("metadata", {}).get("name") == "headroom-worker"]
    by_kind = {"Workers" if one in workers else one["kind"]: one for one in found}
    assert len(by_kind) == len(found)
    return by_kind


@pytest.fixture(scope="module")
def pod(manifests: dict[str, Manifest]) -> Manifest:
    spec: Manifest = manifests["Deployment"]["spec"]["template"]["spec"]
    return spec


@pytest.fixture(scope="module")
def container(pod: Manifest) -> Manifest:
    [only] = pod["containers"]
    assert isinstance(only, dict)
    return only


@pytest.mark.parametrize("version", ["1.30", kubernetes_validate.latest_version()])
def test_kubernetes_would_take_them(manifests: dict[str, Manifest], version: str) -> None:
    for kind, manifest in manifests.items():
        if kind != "Kustomization":  # read by kubectl, not by a cluster
            kubernetes_validate.validate(manifest, version, strict=True)


def test_a_slip_would_be_noticed(manifests: dict[str, Manifest]) -> None:
    slipped = copy.deepcopy(manifests["Deployment"])
    [container] = slipped["spec"]["template"]["spec"]["containers"]
    container["readynessProbe"] = container.pop("readinessProbe")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(slipped, "1.30", strict=True)


def test_kustomize_lists_every_file(manifests: dict[str, Manifest]) -> None:
    listed = set(manifests["Kustomization"]["resources"])
    assert listed == {file.name for file in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}


def test_images_are_of_this_release(manifests: dict[str, Manifest], container: Manifest) -> None:
    [image] = manifests["Kustomization"]["images"]
    assert (image["name"], image["newTag"]) == (container["image"], ENGINE_VERSION)
    composed = yaml.safe_load((INSTALLATION / "docker-compose.yml").read_text())["services"]
    for name in ("headroom", "worker"):
        assert composed[name]["image"] == f"headroom:{ENGINE_VERSION}"
        assert composed[name]["restart"] == "unless-stopped"


def test_everything_means_the_same_pods(manifests: dict[str, Manifest], pod: Manifest) -> None:
    deployment = manifests["Deployment"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert manifests["Service"]["spec"]["selector"] == labels
    assert manifests["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    [spread] = pod["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels
    target = manifests["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert target["name"] == deployment["metadata"]["name"]
    assert (target["apiVersion"], target["kind"]) == (deployment["apiVersion"], "Deployment")


def test_one_replica_may_go_and_another_answers(manifests: dict[str, Manifest]) -> None:
    replicas = manifests["Deployment"]["spec"]["replicas"]
    assert replicas == 2
    assert manifests["HorizontalPodAutoscaler"]["spec"]["minReplicas"] == replicas
    assert manifests["PodDisruptionBudget"]["spec"]["minAvailable"] < replicas
    assert manifests["Deployment"]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_the_pod_may_do_no_more_than_it_needs(pod: Manifest, container: Manifest) -> None:
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    user = pod["securityContext"]["runAsUser"]
    assert f"USER {user}:{user}" in (FOLDER.parents[1] / "Dockerfile").read_text()
    allowed = container["securityContext"]
    assert allowed["readOnlyRootFilesystem"] is True
    assert allowed["allowPrivilegeEscalation"] is False
    assert allowed["capabilities"] == {"drop": ["ALL"]}
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]  # noqa: S108


def test_workers_evaluate_sweeps_and_may_do_no_more(
    manifests: dict[str, Manifest], pod: Manifest, container: Manifest
) -> None:
    workers = manifests["Workers"]["spec"]
    labels = workers["template"]["metadata"]["labels"]
    assert workers["selector"]["matchLabels"] == labels
    assert labels != manifests["Service"]["spec"]["selector"]
    spec = workers["template"]["spec"]
    [worker] = spec["containers"]
    assert worker["args"] == ["worker"]
    assert "ports" not in worker
    for same in ("image", "envFrom", "env", "securityContext", "volumeMounts"):
        assert worker[same] == container[same], same
    for same in (
        "automountServiceAccountToken",
        "enableServiceLinks",
        "securityContext",
        "volumes",
    ):
        assert spec[same] == pod[same], same


def test_probes_and_ports_are_those_of_the_service(
    manifests: dict[str, Manifest], container: Manifest
) -> None:
    [port] = container["ports"]
    assert f"HEADROOM_PORT={port['containerPort']}" in (
        FOLDER.parents[1] / "Dockerfile"
    ).read_text().replace(" \\", "")
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] == port["name"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    [served] = manifests["Service"]["spec"]["ports"]
    assert served["targetPort"] == port["name"]


def test_only_settings_that_exist_are_set(
    manifests: dict[str, Manifest], container: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured = manifests["ConfigMap"]["data"]
    named = [item["name"] for item in container["env"]]
    assert set(configured) | set(named) <= environment_names()
    [source] = container["envFrom"]
    assert source["configMapRef"]["name"] == manifests["ConfigMap"]["metadata"]["name"]
    for name, value in configured.items():
        monkeypatch.setenv(name, value)
    Settings()
