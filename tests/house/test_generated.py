"""The checks of generated files see what they are for."""

from __future__ import annotations

from typing import ClassVar

import proto_compatibility
import settings_page
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import FileDescriptor
from pydantic import Field

from convoy.core.process.settings import Settings

FIELD = descriptor_pb2.FieldDescriptorProto


def file(*fields: tuple[str, int, int], label: int = FIELD.LABEL_OPTIONAL, verb: str = "Sail") -> FileDescriptor:
    proto = descriptor_pb2.FileDescriptorProto(name="ship.proto", package="ship", syntax="proto3")
    message = proto.message_type.add(name="Ship")
    for name, number, kind in fields:
        message.field.add(name=name, number=number, type=kind, label=label)  # type: ignore[arg-type]
    proto.service.add(name="Harbour").method.add(name=verb, input_type=".ship.Ship", output_type=".ship.Ship")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    return pool.FindFileByName(proto.name)


NAME = ("name", 1, FIELD.TYPE_STRING)
CREW = ("crew", 2, FIELD.TYPE_INT32)


def differences(before: FileDescriptor, after: FileDescriptor) -> list[str]:
    return proto_compatibility.changes(proto_compatibility.surface((before,)), proto_compatibility.surface((after,)))


def test_what_is_added_is_compatible() -> None:
    assert differences(file(NAME), file(NAME, CREW)) == []


def test_what_is_taken_away_renumbered_or_retyped_is_not() -> None:
    both = file(NAME, CREW)
    assert differences(both, file(NAME)) == ["ship.Ship.crew (type 5 = 2) was taken away"]
    assert len(differences(both, file(NAME, ("crew", 3, FIELD.TYPE_INT32)))) == 1
    assert len(differences(both, file(NAME, ("crew", 2, FIELD.TYPE_INT64)))) == 1
    assert len(differences(both, file(NAME, ("sailors", 2, FIELD.TYPE_INT32)))) == 1
    assert len(differences(both, file(NAME, CREW, label=FIELD.LABEL_REPEATED))) == 2
    assert differences(both, file(NAME, CREW, verb="Sink")) == [
        "ship.Harbour.Sail (ship.Ship -> ship.Ship) was taken away"
    ]


def test_the_protos_in_use_are_all_looked_at() -> None:
    present = proto_compatibility.surface()
    assert "convoy.v1.Master.JoinRendezvous" in present
    assert present["convoy.v1.Master.Directives"].endswith("-> stream convoy.v1.Directive")
    assert present["convoy.v1.Directive.Action.YIELD"] == "= 2"


class OneSettings(Settings):
    """One."""

    TABLE: ClassVar[str] = "one"
    port: int = Field(default=1, description="Where it listens.")


class OtherSettings(Settings):
    """Other."""

    TABLE: ClassVar[str] = "other"
    port: str = Field(default="two", description="Where the other listens.")
    silent: int = 3


def test_a_variable_that_means_two_things_is_found() -> None:
    assert settings_page.clashes([OneSettings]) == []
    assert settings_page.clashes([OneSettings, OtherSettings]) == [
        "CONVOY_PORT is whole number to [one] and text to [other]"
    ]


def test_a_setting_that_says_nothing_is_found() -> None:
    assert settings_page.undescribed([OneSettings, OtherSettings]) == ["OtherSettings.silent has no description"]


def test_the_page_has_every_setting() -> None:
    page = settings_page.page(settings_page.classes())
    for kind in settings_page.classes():
        assert all(f"| `{name}` |" in page for name in kind.model_fields)
