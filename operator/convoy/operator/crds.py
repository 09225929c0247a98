"""The CustomResourceDefinitions, generated from the models of ``convoy.core.api``.

    python -m convoy.operator.crds            write deploy/crds
    python -m convoy.operator.crds --check    exit with 1, naming the file, where one is stale

The schemas are structural: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from convoy.core.api import names
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import Manifest, Resource
from convoy.core.api.plan import ScalePlan

DIRECTORY = Path(__file__).parents[3] / "deploy" / "crds"
_HEADER = "# Generated from convoy.core.api by `python -m convoy.operator.crds`; edit the models instead.\n"
_KEPT = ("type", "enum", "minimum", "maximum", "minItems", "maxItems", "maxLength", "pattern", "format", "required")
_OPEN = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"

Column = tuple[str, str, str]
"""Name, type and path of a column that `kubectl get` prints."""
_JOB_COLUMNS: tuple[Column, ...] = (
    ("State", "string", ".status.phase"),
    ("Nodes", "integer", ".status.training.nodes"),
    ("Step", "integer", ".status.training.step"),
    ("Speed", "number", ".status.training.samplesPerSecond"),
    ("Reason", "string", ".status.training.reason"),
    ("Age", "date", ".metadata.creationTimestamp"),
)
_PLAN_COLUMNS: tuple[Column, ...] = (
    ("Job", "string", ".spec.ownerJob"),
    ("State", "string", ".status.phase"),
    ("Reason", "string", ".spec.explanation.reason"),
    ("Age", "date", ".metadata.creationTimestamp"),
)


def definitions() -> dict[str, Manifest]:
    """Return the CustomResourceDefinitions by file name."""
    return {
        "elasticjobs.yaml": _definition(ElasticJob, "elasticjobs", "ej", _JOB_COLUMNS),
        "scaleplans.yaml": _definition(ScalePlan, "scaleplans", "sp", _PLAN_COLUMNS),
    }


def render(definition: Manifest) -> str:
    """Return a definition's file."""
    return _HEADER + yaml.safe_dump(definition, sort_keys=False, width=110, allow_unicode=True)


def structural(model: type[Resource]) -> Manifest:
    """Return the structural schema of a kind: references resolved, nothing that a structural schema may not hold."""
    schema = model.model_json_schema(by_alias=True)
    root = _node(schema, schema.get("$defs", {}))
    properties = root["properties"]
    properties["apiVersion"] = {"type": "string"}
    properties["kind"] = {"type": "string"}
    properties["metadata"] = {"type": "object"}
    root["required"] = ["spec"]
    return root


def _definition(model: type[Resource], plural: str, short: str, columns: tuple[Column, ...]) -> Manifest:
    printed = [{"name": name, "type": kind, "jsonPath": path} for name, kind, path in columns]
    version = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": printed,
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
            "versions": [version],
        },
    }


def _node(schema: Manifest, definitions: Manifest) -> Manifest:
    """Return one node of a JSON schema in structural form. Absent stays absent: defaults and nulls are left out."""
    schema = _resolve(schema, definitions)
    described: Manifest = {}
    if text := schema.get("description"):
        described["description"] = " ".join(str(text).split())
    if schema.get(_INT_OR_STRING):
        return described | {"anyOf": [{"type": "integer"}, {"type": "string"}], _INT_OR_STRING: True}
    node = described | {key: schema[key] for key in _KEPT if key in schema}
    if "const" in schema:
        node["enum"] = [schema["const"]]
    if node.get("type") == "integer":
        node["format"] = "int64"
    if "items" in schema:
        node["items"] = _node(schema["items"], definitions)
    more = schema.get("additionalProperties")
    if "properties" in schema:
        node["properties"] = {name: _property(name, one, definitions) for name, one in schema["properties"].items()}
        if more is True:
            node[_OPEN] = True
    elif isinstance(more, dict) and more:
        node["additionalProperties"] = _node(more, definitions)
    if "type" not in node:
        node[_OPEN] = True
    return node


def _property(name: str, schema: Manifest, definitions: Manifest) -> Manifest:
    node = _node(schema, definitions)
    if name == "conditions":
        node |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    return node


def _resolve(schema: Manifest, definitions: Manifest) -> Manifest:
    """Put a referenced definition, or the only alternative to null, in a node's place; what it says itself counts."""
    while True:
        own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf", "anyOf")}
        if "$ref" in schema:
            inner = definitions[schema["$ref"].rpartition("/")[2]]
        elif "anyOf" in schema and not schema.get(_INT_OR_STRING):
            given: list[Any] = [one for one in schema["anyOf"] if one.get("type") != "null"]
            if len(given) != 1:
                raise AssertionError(f"a structural schema has no alternatives: {schema}")
            inner = given[0]
        else:
            return schema
        schema = {**inner, **own}


def stale(directory: Path) -> list[Path]:
    """Return the files that aren't what the models say."""
    files = {directory / name: render(definition) for name, definition in definitions().items()}
    return [path for path, text in files.items() if not path.is_file() or path.read_text() != text]


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or check them; return the exit status."""
    parser = argparse.ArgumentParser(description="Generate the CustomResourceDefinitions from the models.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a file is stale")
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help="where the files are")
    given = parser.parse_args(arguments)
    if given.check:
        outdated = stale(given.directory)
        for path in outdated:
            sys.stderr.write(f"{path}: stale; run `python -m convoy.operator.crds`\n")
        return 1 if outdated else 0
    given.directory.mkdir(parents=True, exist_ok=True)
    for name, definition in definitions().items():
        (given.directory / name).write_text(render(definition))
    return 0


if __name__ == "__main__":
    sys.exit(main())
