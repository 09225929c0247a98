"""Structural schemas of our kinds, from their models: references resolved, nothing that such a schema may not hold.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
"""

from __future__ import annotations

from typing import Any

from convoy.core.api.meta import Manifest, Resource
from convoy.core.api.rules import PRESERVE, VALIDATIONS

_KEPT = (
    *("type", "enum", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "pattern", "format"),
    *("minProperties", "maxProperties", "required", VALIDATIONS),
)
_INT_OR_STRING = "x-kubernetes-int-or-string"
_NAME = {"type": "object", "properties": {"name": {"type": "string"}}}


def structural(model: type[Resource]) -> Manifest:
    """Return the structural schema of a kind."""
    schema = model.model_json_schema(by_alias=True)
    root = _node(schema, schema.get("$defs", {}))
    properties = root["properties"]
    properties["apiVersion"] = {"type": "string"}
    properties["kind"] = {"type": "string"}
    properties["metadata"] = _NAME if VALIDATIONS in root else {"type": "object"}
    root["required"] = ["spec"]
    return root


def _node(schema: Manifest, definitions: Manifest) -> Manifest:
    """Return one node of a JSON schema in structural form. Absent stays absent: defaults and nulls are left out."""
    schema = _resolve(schema, definitions)
    described: Manifest = {}
    if text := schema.get("description"):
        described["description"] = " ".join(str(text).split())
    node = described | {key: schema[key] for key in _KEPT if key in schema}
    if schema.get(_INT_OR_STRING):
        return node | {"anyOf": [{"type": "integer"}, {"type": "string"}], _INT_OR_STRING: True}
    if "const" in schema:
        node["enum"] = [schema["const"]]
    if node.get("type") == "integer":
        node["format"] = "int64"
    if "items" in schema:
        node["items"] = _node(schema["items"], definitions)
    more = schema.get("additionalProperties")
    if "properties" in schema:
        node["properties"] = {name: _property(name, one, definitions) for name, one in schema["properties"].items()}
    elif isinstance(more, dict) and more:
        node["additionalProperties"] = _node(more, definitions)
    if more is True or schema.get(PRESERVE) or "type" not in node:
        node[PRESERVE] = True
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
