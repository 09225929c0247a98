"""What a schema says beyond types: rules that an API server evaluates, and fields that are declared and refused.

The rules are CEL (https://kubernetes.io/docs/reference/using-api/cel/). They stand at the models whose validators
hold the same on one machine; those that compare with the object as it was are the API server's alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

VALIDATIONS = "x-kubernetes-validations"
PRESERVE = "x-kubernetes-preserve-unknown-fields"

Schema = dict[str, Any]


class Rule(NamedTuple):
    """One rule: CEL over ``self``, what is said where it is false, and the field that is named then.

    ``created``: it is asked of new objects alone, so that one that is there already can still be written to.
    """

    rule: str
    message: str
    field: str = ""
    created: bool = False

    def to_json(self) -> Schema:
        """Return the rule as a schema holds it."""
        said = {"rule": self.rule, "message": self.message}
        if self.field:
            said["fieldPath"] = f".{self.field}"
        if not self.created:
            return said
        return {**said, "rule": f"oldSelf.hasValue() || ({self.rule})", "optionalOldSelf": True}


def ruled(*rules: Rule) -> Callable[[Schema], None]:
    """Return what adds rules to a model's JSON schema: ``ConfigDict(json_schema_extra=ruled(...))``."""

    def add(schema: Schema) -> None:
        schema[VALIDATIONS] = [rule.to_json() for rule in rules]

    return add


def worded(message: str) -> Callable[[Schema], None]:
    """Return what makes a rule with a message of a field's pattern, which an API server would only quote."""

    def add(schema: Schema) -> None:
        (holder,) = (one for one in (schema, *schema.get("anyOf", ())) if "pattern" in one)
        schema[VALIDATIONS] = [Rule(f"self.matches(r'{holder.pop('pattern')}')", message).to_json()]

    return add


@dataclass(frozen=True)
class Unsupported:
    """Marks a field that DLRover declares and Convoy refuses: ``Annotated[None, Unsupported(why, type)] = None``."""

    why: str
    type: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self._refuse)

    def __get_pydantic_json_schema__(self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        content: Schema = {"items": {"type": "object", PRESERVE: True}} if self.type == "array" else {}
        if self.type == "object":
            content = {PRESERVE: True}
        said = f"Unsupported: {self.why}."
        return {"type": self.type, **content, "description": said, VALIDATIONS: [Rule("false", self.why).to_json()]}

    def _refuse(self, value: Any) -> None:
        if value is not None:
            raise ValueError(self.why)
