"""What all objects share: metadata, owner references, conditions, and how a manifest becomes a typed object.

An object travels as a manifest (plain JSON: ``dict[str, Any]``) and is read where it is used as a pydantic model of
this package. Absent stays absent: a field that the user left out is None here and isn't written back.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from convoy.core.api.errors import InvalidManifest

Manifest = dict[str, Any]
"""An object as JSON: apiVersion, kind, metadata, and what its kind holds."""


class Model(BaseModel):
    """Base of API models: camelCase on the wire, unknown fields refused by name."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")

    def to_json(self) -> Manifest:
        """Return the wire form without what is absent."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class OpenModel(Model):
    """An API model of which Convoy reads a part; the rest is kept as it is."""

    model_config = ConfigDict(extra="allow")


class OwnerReference(OpenModel):
    """Who is deleted before this object is."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(OpenModel):
    """metadata of an object."""

    name: str
    namespace: str = "default"
    uid: str = ""
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owner_references: list[OwnerReference] = Field(default_factory=list)


_REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
_LONGEST_MESSAGE = 32_768


class Condition(OpenModel):
    """One metav1.Condition; ``reason`` is stable CamelCase. ``set_condition`` gives it its time."""

    model_config = ConfigDict(
        json_schema_extra={"required": ["type", "status", "reason", "message", "lastTransitionTime"]}
    )

    type: str = Field(json_schema_extra={"minLength": 1, "maxLength": 316})
    status: Literal["True", "False", "Unknown"]
    reason: str = Field(json_schema_extra={"minLength": 1, "maxLength": 1024, "pattern": _REASON})
    message: str = Field(default="", json_schema_extra={"maxLength": _LONGEST_MESSAGE})
    last_transition_time: datetime | None = None
    observed_generation: int | None = Field(default=None, json_schema_extra={"minimum": 0})


def set_condition(conditions: Iterable[Condition], new: Condition, now: datetime) -> list[Condition]:
    """Return the conditions with ``new`` in the place of its type; the time moves only when the status does."""
    kept = [condition for condition in conditions if condition.type != new.type]
    old = next((condition for condition in conditions if condition.type == new.type), None)
    unchanged = old is not None and old.status == new.status and old.last_transition_time is not None
    since = old.last_transition_time if old is not None and unchanged else now
    said = {"last_transition_time": since, "message": new.message[:_LONGEST_MESSAGE]}
    return [*kept, new.model_copy(update=said)]


def condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Return the condition of that type, if it is there."""
    return next((item for item in conditions if item.type == type_), None)


def controller_uid(manifest: Manifest) -> str | None:
    """Return the uid of the object's controlling owner, None where it has none."""
    owners = manifest["metadata"].get("ownerReferences") or []
    return next((owner.get("uid", "") for owner in owners if owner.get("controller")), None)


class Resource(Model):
    """Base of the kinds that Convoy defines: ``from_manifest`` and ``to_manifest`` are the edge."""

    KIND: ClassVar[str]
    API_VERSION: ClassVar[str]

    api_version: str
    kind: str
    metadata: ObjectMeta

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> Self:
        """Read a manifest.

        Raises:
            InvalidManifest: with the path of the first wrong field, its value and what was expected.
        """
        return validate(cls, manifest)

    def to_manifest(self) -> Manifest:
        """Return the wire form without what is absent."""
        return self.to_json()

    def owner_reference(self) -> Manifest:
        """Return the reference with which what this object owns names it."""
        return owner_reference(self.api_version, self.kind, self.metadata)


def owner_reference(api_version: str, kind: str, owner: ObjectMeta) -> Manifest:
    """Return the reference with which what an object controls names it."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


_M = TypeVar("_M", bound=BaseModel)


class WrongField(ValueError):
    """What a model's validator raises about a field below the model: its place there, and what is wrong."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(message)
        self.place = place


def validate(model: type[_M], value: Any, at: str = "") -> _M:
    """Return ``value`` as ``model``.

    Raises:
        InvalidManifest: the first wrong field, with its path below ``at``.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        cause = (first.get("ctx") or {}).get("error")
        places = (*first["loc"], *([cause.place] if isinstance(cause, WrongField) else ()))
        raise InvalidManifest(_path(at, places), _explain(first, model)) from None


def _path(at: str, places: tuple[str | int, ...]) -> str:
    path = at
    for place in places:
        path += f"[{place}]" if isinstance(place, int) else f".{place}" if path else place
    return path


_SHOWN = 80
"""Characters of a wrong value that a message repeats."""


def _explain(error: Any, model: type[BaseModel]) -> str:
    given = error.get("input")
    shown = repr(given) if not isinstance(given, dict | list) else f"a {type(given).__name__}"
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}... ({len(shown)} characters)"
    match error["type"]:
        case "extra_forbidden":
            return f"no such field (value {shown}); see `convoy submit --help` for the fields of an ElasticJob"
        case "missing":
            return "is required, and is absent"
        case "value_error":
            return str(error["ctx"]["error"])
        case _:
            return f"{error['msg']}, not {shown}"
