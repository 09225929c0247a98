"""The CustomResourceDefinitions, generated from the models of ``convoy.core.api``.

python -m convoy.operator.crds            write deploy/crds
python -m convoy.operator.crds --check    exit with 1, naming the file, where one is stale
python -m convoy.operator.crds --apply    apply them to the cluster that the kubeconfig names
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import yaml

from convoy.core.api import names
from convoy.core.api.errors import ConvoyError, Unusable
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import Manifest, Resource
from convoy.core.api.plan import ScalePlan
from convoy.operator.schema import structural

DIRECTORY = Path(__file__).parents[3] / "deploy" / "crds"
_HEADER = "# Generated from convoy.core.api by `python -m convoy.operator.crds`; edit the models instead.\n"


class Column(NamedTuple):
    """A column that `kubectl get` prints; of priority 1, with `-o wide` alone."""

    name: str
    type: str
    path: str
    priority: int = 0

    def to_json(self) -> Manifest:
        """Return it as a definition holds it."""
        more = {"priority": self.priority} if self.priority else {}
        return {"name": self.name, "type": self.type, "jsonPath": self.path, **more}


_JOB_COLUMNS = (
    Column("State", "string", ".status.phase"),
    Column("Ready", "string", ".status.ready"),
    Column("Step", "integer", ".status.training.step"),
    Column("Speed", "number", ".status.training.samplesPerSecond"),
    Column("Restarts", "integer", ".status.training.restarts"),
    Column("Mode", "string", ".spec.optimizeMode"),
    Column("Age", "date", ".metadata.creationTimestamp"),
    Column("Progress", "number", ".status.training.progress", 1),
    Column("ETA", "string", ".status.training.estimatedCompletionTime", 1),
    Column("Reason", "string", ".status.training.reason", 1),
)
_PLAN_COLUMNS = (
    Column("Job", "string", ".spec.ownerJob"),
    Column("State", "string", ".status.phase"),
    Column("Reason", "string", ".spec.explanation.reason"),
    Column("Age", "date", ".metadata.creationTimestamp"),
)
_WORKERS = f".replicaSpecs.{names.WORKER}.replicas"
_JOB_SCALE = {
    "specReplicasPath": f".spec{_WORKERS}",
    "statusReplicasPath": f".status.replicaStatuses.{names.WORKER}.active",
    "labelSelectorPath": ".status.selector",
}


def definitions() -> dict[str, Manifest]:
    """Return the CustomResourceDefinitions by file name."""
    return {
        "elasticjobs.yaml": _definition(ElasticJob, "elasticjobs", "ej", _JOB_COLUMNS, scale=_JOB_SCALE),
        "scaleplans.yaml": _definition(ScalePlan, "scaleplans", "sp", _PLAN_COLUMNS),
    }


def render(definition: Manifest) -> str:
    """Return a definition's file."""
    return _HEADER + yaml.safe_dump(definition, sort_keys=False, width=110, allow_unicode=True)


def _definition(
    model: type[Resource], plural: str, short: str, columns: tuple[Column, ...], **subresources: Manifest
) -> Manifest:
    version = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}, **subresources},
        "additionalPrinterColumns": [column.to_json() for column in columns],
        "schema": {"openAPIV3Schema": structural(model)},
    }
    kind = model.KIND
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
            },
            "scope": "Namespaced",
            "conversion": {"strategy": "None"},
            "preserveUnknownFields": False,
            "versions": [version],
        },
    }


def stale(directory: Path) -> list[Path]:
    """Return the files that aren't what the models say."""
    files = {directory / name: render(definition) for name, definition in definitions().items()}
    return [path for path, text in files.items() if not path.is_file() or path.read_text() != text]


def main(arguments: list[str] | None = None) -> int:
    """Write the files, check or apply them; return the exit status."""
    parser = argparse.ArgumentParser(description="Generate the CustomResourceDefinitions from the models.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a file is stale")
    what.add_argument("--apply", action="store_true", help="write no file; apply them, by server-side apply")
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help="where the files are")
    parser.add_argument("--kubeconfig", type=Path, help="of the cluster; else KUBECONFIG, ~/.kube/config, the pod's")
    parser.add_argument("--context", help="of the kubeconfig; else its current one")
    given = parser.parse_args(arguments)
    if given.apply:
        return _apply(given.kubeconfig, given.context)
    if given.check:
        outdated = stale(given.directory)
        for path in outdated:
            sys.stderr.write(f"{path}: stale; run `python -m convoy.operator.crds`\n")
        return 1 if outdated else 0
    given.directory.mkdir(parents=True, exist_ok=True)
    for name, definition in definitions().items():
        (given.directory / name).write_text(render(definition))
    return 0


def _apply(kubeconfig: Path | None, context: str | None) -> int:
    try:
        from convoy.operator.install import install
    except ImportError:
        sys.stderr.write("--apply needs the package kubernetes: pip install 'convoy-train[kubernetes]'\n")
        return Unusable.exit_status
    try:
        for name in install(definitions().values(), kubeconfig, context):
            sys.stdout.write(f"{name} is served\n")
    except ConvoyError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
