"""How accelerators are named: as resources of pods and nodes, and their kind in nodes' labels. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

RESOURCES = re.compile(
    r"nvidia\.com/(gpu|mig-.+)(\.shared)?"
    r"|amd\.com/gpu"
    r"|gpu\.intel\.com/(i915|xe)"
    r"|habana\.ai/gaudi"
    r"|google\.com/tpu"
    r"|aws\.amazon\.com/neuron"
    r"|huawei\.com/Ascend.+"
    r"|cambricon\.com/(mlu|vmlu)"
    r"|(metax-tech|mthreads|hygon|iluvatar)\.(com|ai)/.*gpu"
)
"""Resources of which one unit is an accelerator, or the slice that stands for one."""

LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-tpu-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "accelerator",
)
"""Labels of nodes that name the kind, the most exact first; what nodes' vendors and clouds write."""


def resources(names: Iterable[str]) -> list[str]:
    """Return those of the resources that are accelerators."""
    return sorted(name for name in names if RESOURCES.fullmatch(name))


def kind(labels: Mapping[str, str]) -> str:
    """Return the kind that labels, or a selector of them, name; ``""`` where they name none."""
    return next((labels[label] for label in LABELS if labels.get(label)), "")
