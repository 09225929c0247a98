"""Manifests of jobs that tests submit."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

_JOB: Manifest = {
    "apiVersion": "elastic.iml.github.io/v1alpha1",
    "kind": "ElasticJob",
    "metadata": {"name": "job"},
    "spec": {
        "distributionStrategy": "AllreduceStrategy",
        "optimizeMode": "manual",
        "replicaSpecs": {
            "worker": {
                "replicas": 1,
                "template": {
                    "spec": {
                        "containers": [
                            {
                                "name": "main",
                                "command": ["dlrover-run", "--nnodes=1", "train.py"],
                                "resources": {"requests": {"cpu": "1", "memory": "256Mi"}},
                            }
                        ]
                    }
                },
            }
        },
    },
}


def job(name: str = "job", **changes: Any) -> Manifest:
    """Return a job that is right; ``changes`` set values by path, with ``__`` between its parts.

    ``worker__replicas=2`` stands for ``spec__replicaSpecs__worker__replicas=2``, ``container__command=[...]`` for the
    only container's.
    """
    made = copy.deepcopy(_JOB)
    made["metadata"]["name"] = name
    for path, value in changes.items():
        head, _, rest = path.partition("__")
        prefixes: dict[str, list[str | int]] = {
            "worker": ["spec", "replicaSpecs", "worker"],
            "container": ["spec", "replicaSpecs", "worker", "template", "spec", "containers", 0],
        }
        tail: list[str | int] = [*rest.split("__")] if rest else []
        *parents, last = prefixes.get(head, [head]) + tail
        node: Any = made
        for key in parents:
            node = node[key] if isinstance(key, int) else node.setdefault(key, {})
        node[last] = value
    return made


def write(directory: Path, manifest: Manifest | str, script: str | None = "print('trained')\n") -> Path:
    """Write a manifest, and the script ``train.py`` beside it; return the manifest's file."""
    file = directory / "job.yaml"
    file.write_text(manifest if isinstance(manifest, str) else yaml.safe_dump(manifest))
    if script is not None:
        (directory / "train.py").write_text(script)
    return file
