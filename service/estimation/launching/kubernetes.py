"""The manifest that runs a command on a Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import yaml

#: What vendors' device plugins call their accelerators (Kubernetes documentation, Schedule GPUs,
#: 2025; Intel Gaudi, Google TPU and AWS Neuron documentation of their device plugins, 2025).
_RESOURCES: Mapping[str, str] = MappingProxyType(
    {
        "NVIDIA": "nvidia.com/gpu",
        "AMD": "amd.com/gpu",
        "Intel": "habana.ai/gaudi",
        "Google": "google.com/tpu",
        "AWS": "aws.amazon.com/neuron",
    }
)
_NAME = "llm"


def manifest(
    image: str,
    port: int,
    runs: Mapping[str, Sequence[str]],
    accelerators: int,
    replicas: int,
    vendor: str,
) -> str | None:
    """A deployment with a service before it, as YAML; None for accelerators of other vendors.

    Parameters
    ----------
    image, port, runs
        What runs, where it listens, and how it is started: by a ``command``, or by ``args`` of
        what the image runs itself.
    accelerators, replicas
        Accelerators of a replica, and how many replicas.
    vendor
        Who makes the accelerators.
    """
    resource = _RESOURCES.get(vendor)
    if resource is None:
        return None
    container: dict[str, Any] = {
        "name": _NAME,
        "image": image,
        **{name: list(words) for name, words in runs.items()},
        "ports": [{"containerPort": port}],
        "env": [
            {
                "name": "HF_TOKEN",
                "valueFrom": {
                    "secretKeyRef": {"name": "hugging-face", "key": "token", "optional": True}
                },
            }
        ],
        "resources": {"limits": {resource: accelerators}},
        "volumeMounts": [{"name": "shared-memory", "mountPath": "/dev/shm"}],  # noqa: S108
    }
    shared = {"name": "shared-memory", "emptyDir": {"medium": "Memory"}}
    parts: list[dict[str, Any]] = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": _NAME},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": _NAME}},
                "template": {
                    "metadata": {"labels": {"app": _NAME}},
                    "spec": {"containers": [container], "volumes": [shared]},
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": _NAME},
            "spec": {"selector": {"app": _NAME}, "ports": [{"port": 80, "targetPort": port}]},
        },
    ]
    text: str = yaml.safe_dump_all(parts, sort_keys=False, width=100)
    return text
