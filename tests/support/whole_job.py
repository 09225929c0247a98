"""An ElasticJob that has every field that is carried out."""

from __future__ import annotations

import copy
from typing import Any

from convoy.core.api.meta import Manifest


def whole_job(name: str = "whole", **spec: Any) -> Manifest:
    """Return a job with all fields that have an effect; ``spec`` replaces some."""
    return {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name, "labels": {"team": "vision"}, "annotations": {"convoy/pin": "false"}},
        "spec": {
            "distributionStrategy": "AllreduceStrategy",
            "optimizeMode": "cluster",
            "enableElasticScheduling": True,
            "enableDynamicSharding": True,
            "brainService": "convoy-brain.convoy-system.svc:50001",
            "resourceLimits": {"cpu": 8, "memory": "16Gi"},
            "envs": {"NCCL_DEBUG": {"name": "NCCL_DEBUG", "value": "INFO"}},
            "suspend": False,
            "managedBy": "elastic.iml.github.io/convoy",
            "replicaSpecs": {"worker": _worker(), "dlrover-master": {"replicas": 1, "template": _template()}},
            **copy.deepcopy(spec),
        },
    }


def _worker() -> Manifest:
    return {
        "replicas": 2,
        "minReplicas": 1,
        "maxReplicas": 4,
        "restartPolicy": "OnFailure",
        "restartCount": 3,
        "autoScale": True,
        "priority": "0.5",
        "template": _template(),
    }


def _template() -> Manifest:
    return {
        "metadata": {"labels": {"team": "vision"}, "annotations": {"note": "kept"}},
        "spec": {
            "restartPolicy": "Always",
            "nodeSelector": {"disk": "ssd"},
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/train:1",
                    "imagePullPolicy": "Always",
                    "command": ["dlrover-run", "--nnodes=1:4", "train.py"],
                    "args": ["--epochs", "3"],
                    "workingDir": "/srv/train",
                    "env": [{"name": "OMP_NUM_THREADS", "value": "1"}],
                    "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}},
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
            ],
        },
    }
