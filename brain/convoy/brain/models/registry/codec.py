"""A model as the bytes of one file, and back; nothing in it is ever unpickled.

The file is in the format of safetensors: tensors, and a header that holds one text, ``convoy``. That text is JSON:
the checksum, the version of the format, the facts (``facts.Facts``) and the model's document. Any tool that reads
safetensors shows all of it. What scikit-learn fitted stands in it as a tensor of bytes (``estimators``).

The checksum is SHA-256 of the whole file, its own 64 digits written as zeros. It is checked before anything is
parsed, and by the same rule whatever the version of the format. It tells damage, not malice: who may write the folder
may write a right one.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from convoy.brain.models.registry import document as json_document
from convoy.brain.models.registry.facts import Facts
from convoy.brain.models.state import State
from convoy.core.api.errors import CorruptState, InvalidInput, StateError, UnknownSchema

FORMAT = 1
LARGEST = 512 * 2**20
"""Bytes of a file."""
MOST_TENSORS = 10_000

_KEY = "convoy"
_NOTHING = "0" * 64
_CHECKSUM = re.compile(rb'\{\s*"__metadata__"\s*:\s*\{\s*"convoy"\s*:\s*"\{\\"sha256\\":\\"([0-9a-f]{64})\\"')
_NUMBERS = {
    "BOOL": "bool", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "I8": "int8", "I16": "int16",
    "I32": "int32", "I64": "int64", "F16": "float16", "F32": "float32", "F64": "float64",
}  # fmt: skip
"""What a tensor may hold: safetensors' name of it, and numpy's."""
_LARGEST_HEADER = 3 * json_document.LARGEST_BYTES


@dataclass(frozen=True)
class ModelFile:
    """A model file's content."""

    facts: Facts
    state: State


def encode(file: ModelFile) -> bytes:
    """Return the file's bytes; the same content gives the same bytes.

    Raises:
        InvalidInput: a state with a value that JSON hasn't, a tensor that isn't of numbers, or too much of it.
    """
    tensors = {name: _checked(name, tensor) for name, tensor in file.state.tensors.items()}
    if len(tensors) > MOST_TENSORS or sum(tensor.nbytes for tensor in tensors.values()) > LARGEST // 2:
        raise _invalid(f"{len(tensors):,} tensors are too many or too large: at most {LARGEST // 2:,} bytes in all")
    content = {
        "sha256": _NOTHING,
        "format": FORMAT,
        "facts": file.facts.document(),
        "document": file.state.document,
    }
    text = json_document.dumped(content, where=f"model {file.facts.name}")
    plain = safetensors.numpy.save(tensors, {_KEY: text})
    place = _CHECKSUM.match(plain, 8)
    if place is None:  # a later safetensors writes its header otherwise: better none than a file that can't be read
        raise _invalid(f"safetensors {safetensors.__version__} writes a header that Convoy doesn't know")
    return plain[: place.start(1)] + _sum(plain, place).encode() + plain[place.end(1) :]


def decode(content: bytes, *, name: str | None = None, schema_hash: str | None = None) -> ModelFile:
    """Return what a file holds, having checked all of it.

    Args:
        content: the file's bytes.
        name: of the model that it has to be; None: of any.
        schema_hash: of the columns that it will be asked with; None: any.

    Raises:
        CorruptState: not a model file of Convoy's (``ModelFileForeign``), damaged (``ModelFileCorrupt``), or larger
            than any is (``ModelFileTooLarge``).
        UnknownSchema: a newer version of Convoy wrote it (``ModelFormatUnknown``).
        StateError: another model's (``OtherModel``), or fitted to other columns (``OtherColumns``).
    """
    header = _header(content)
    body = json_document.parsed(str(header.get("__metadata__", {}).get(_KEY)), where="model file")
    if body.get("format") != FORMAT:
        raise UnknownSchema(
            f"model file: of format {body.get('format')!r}, and this version of Convoy reads {FORMAT}; upgrade "
            "Convoy, or fit the model anew",
            reason="ModelFormatUnknown",
        )
    facts = Facts.read(body.get("facts"))
    _refuse_other(facts, name, schema_hash)
    document = body.get("document")
    if not isinstance(document, dict):
        raise _corrupt("its model has no document")
    return ModelFile(facts, State(document, _tensors(content, header)))


def digest(content: bytes) -> str:
    """Return SHA-256 of a file's bytes."""
    return hashlib.sha256(content).hexdigest()


def _header(content: bytes) -> dict[str, Any]:
    """Return the header of a file that is ours and undamaged."""
    if len(content) > LARGEST:
        raise CorruptState(
            f"model file: {len(content):,} bytes, and none has more than {LARGEST:,}", reason="ModelFileTooLarge"
        )
    place = _CHECKSUM.match(content, 8)
    if place is None:
        raise CorruptState(
            "model file: not one of Convoy's (expected safetensors with a text 'convoy' in the header); nothing of "
            "it was read",
            reason="ModelFileForeign",
        )
    if _sum(content, place).encode() != place.group(1):
        raise _corrupt("its checksum isn't its content's: it was damaged or changed")
    length = int.from_bytes(content[:8], "little")
    if not place.end() - 8 <= length <= min(len(content) - 8, _LARGEST_HEADER):
        raise _corrupt(f"a header of {length:,} bytes can't be")
    header = json_document.parsed(content[8 : 8 + length], where="model file's header")
    if not isinstance(header.get("__metadata__"), dict):
        raise _corrupt("its header has no texts")
    return header


def _sum(content: bytes, place: re.Match[bytes]) -> str:
    found = hashlib.sha256(memoryview(content)[: place.start(1)])
    found.update(_NOTHING.encode())
    found.update(memoryview(content)[place.end(1) :])
    return found.hexdigest()


def _refuse_other(facts: Facts, name: str | None, schema_hash: str | None) -> None:
    if name is not None and facts.name != name:
        raise StateError(f"model file: of model {facts.name!r}, expected {name!r}", reason="OtherModel")
    if schema_hash is not None and facts.schema.hash != schema_hash:
        raise StateError(
            f"model file: {facts.name} was fitted to other columns (schema {facts.schema.hash[:12]}, expected "
            f"{schema_hash[:12]}) by Convoy {facts.code_version}; fit it anew with `convoy brain fit`",
            reason="OtherColumns",
        )


def _tensors(content: bytes, header: dict[str, Any]) -> dict[str, NDArray[np.generic]]:
    described = {name: value for name, value in header.items() if name != "__metadata__"}
    if len(described) > MOST_TENSORS:
        raise _corrupt(f"{len(described):,} tensors are more than any has")
    for name, value in described.items():
        kind = value.get("dtype") if isinstance(value, dict) else None
        if kind not in _NUMBERS:
            raise _corrupt(f"tensor {name!r} is of {kind!r}, expected one of {', '.join(_NUMBERS)}")
    try:
        loaded = safetensors.numpy.load(content)
    except (safetensors.SafetensorError, ValueError, TypeError, OverflowError) as error:
        raise _corrupt(f"its tensors can't be read: {error}") from None
    # Copies: the loaded ones share the file's bytes, which nobody could write and all would keep.
    return {name: np.array(tensor, order="C") for name, tensor in loaded.items()}


def _checked(name: str, tensor: object) -> NDArray[np.generic]:
    """Return the tensor as it is written: contiguous, in the machine's order of bytes."""
    if not isinstance(tensor, np.ndarray):
        raise _invalid(f"tensor {name!r} is a {type(tensor).__name__}, expected a numpy array")
    if tensor.dtype.name not in _NUMBERS.values():
        raise _invalid(
            f"tensor {name!r} is of {tensor.dtype}, expected one of {', '.join(_NUMBERS.values())}; texts belong "
            "into the document"
        )
    if not isinstance(name, str) or not name or name == "__metadata__":
        raise _invalid(f"tensor {name!r}: expected a name other than __metadata__")
    return np.array(tensor, dtype=tensor.dtype.newbyteorder("="), order="C")


def _corrupt(what: str) -> CorruptState:
    return CorruptState(f"model file: {what}", reason="ModelFileCorrupt")


def _invalid(what: str) -> InvalidInput:
    return InvalidInput(f"state of a model: {what}", reason="ModelStateInvalid")
