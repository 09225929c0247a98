"""Checks that the protos only grew since the last release: an old agent must be understood by a new master.

The last release's messages stand in core/convoy/core/api/v1/released.json. Taking away, renaming, renumbering or
retyping anything in it fails. ``--release`` makes the present protos the last release's.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor

from convoy.core.api.v1 import brain_pb2, master_pb2, metrics_pb2

RELEASED = Path(__file__).parents[1] / "core/convoy/core/api/v1/released.json"
FILES: tuple[FileDescriptor, ...] = (metrics_pb2.DESCRIPTOR, master_pb2.DESCRIPTOR, brain_pb2.DESCRIPTOR)

Surface = dict[str, str]
"""What others count on: its name -> what it is."""


def surface(files: tuple[FileDescriptor, ...] = FILES) -> Surface:
    """Return every field, enum value and method."""
    return dict(entry for file in files for entry in _entries(file))


def changes(released: Surface, present: Surface) -> list[str]:
    """Return what a peer of the last release would miss or misread, one sentence each."""
    found = []
    for name, was in sorted(released.items()):
        if name not in present:
            found.append(f"{name} ({was}) was taken away")
        elif present[name] != was:
            found.append(f"{name} was '{was}' and is '{present[name]}'")
    return found


def _entries(file: FileDescriptor) -> Iterator[tuple[str, str]]:
    for enum in file.enum_types_by_name.values():
        yield from _enum(enum)
    for message in file.message_types_by_name.values():
        yield from _message(message)
    for service in file.services_by_name.values():
        for method in service.methods:
            kinds: Any = method
            answer = ("stream " if kinds.server_streaming else "") + method.output_type.full_name
            asked = ("stream " if kinds.client_streaming else "") + method.input_type.full_name
            yield method.full_name, f"{asked} -> {answer}"


def _message(message: Descriptor) -> Iterator[tuple[str, str]]:
    for field in message.fields:
        yield field.full_name, f"{_type(field)} = {field.number}"
    for enum in message.enum_types:
        yield from _enum(enum)
    for nested in message.nested_types:
        yield from _message(nested)


def _enum(enum: EnumDescriptor) -> Iterator[tuple[str, str]]:
    for value in enum.values:
        yield f"{enum.full_name}.{value.name}", f"= {value.number}"


def _type(field: FieldDescriptor) -> str:
    named = field.message_type or field.enum_type
    name = named.full_name if named is not None else f"type {field.type}"
    described: Any = field
    try:
        repeated = described.is_repeated
    except AttributeError:  # protobuf before 6
        repeated = described.label == FieldDescriptor.LABEL_REPEATED
    return f"repeated {name}" if repeated else name


def main() -> int:
    """Compare, or make a new baseline."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--release", action="store_true", help="make the present protos the last release's")
    if parser.parse_args().release:
        RELEASED.write_text(json.dumps(surface(), indent=1, sort_keys=True) + "\n")
        return 0
    found = changes(json.loads(RELEASED.read_text()), surface())
    for sentence in found:
        sys.stdout.write(f"incompatible with the last release: {sentence}\n")
    sys.stdout.write(f"protos: {len(found)} incompatible changes\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
