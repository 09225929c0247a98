"""Checkpoints that a kill at any moment leaves whole, without pickle.

A checkpoint of step n is two files: ``step-n.safetensors`` with every tensor and ``step-n.json``, the manifest, with
everything else (parameter groups, scalars, the sampler's position) and, where a tensor stood, its name. They are
committed in the order data, manifest, pointer (``latest.json``), each written anew, synced and renamed: a manifest is
there only if its data is.
"""

from __future__ import annotations

import json
import os
import re
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as render_tensors

from convoy.core.api.errors import CorruptState, InvalidInput, UnknownSchema, Unusable
from convoy.core.process.crashpoint import crash_point
from convoy.core.process.files import write_atomically

SCHEMA = 1
_MANIFEST = re.compile(r"^step-(\d{10})\.json$")
_TENSOR, _TUPLE, _PAIRS = "$tensor", "$tuple", "$pairs"


def flatten(state: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    """Split nested state into what JSON holds and its tensors by name, on the CPU.

    Raises:
        InvalidInput: something in it is neither a tensor nor of a type that JSON can hold; the message names its
        place.
    """
    tensors: dict[str, torch.Tensor] = {}
    seen: dict[tuple[Any, ...], str] = {}

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, torch.Tensor):
            where = (value.data_ptr(), value.dtype, tuple(value.shape), value.stride(), str(value.device))
            if value.numel() == 0 or where not in seen:
                seen[where] = path
                tensors[path] = value.detach().to("cpu", copy=True).contiguous()
            return {_TENSOR: path if value.numel() == 0 else seen[where]}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, Mapping):
            if all(isinstance(key, str) and not key.startswith("$") for key in value):
                return {key: walk(item, f"{path}.{key}" if path else key) for key, item in value.items()}
            pairs = [[walk(key, path), walk(item, f"{path}.{key}")] for key, item in value.items()]
            return {_PAIRS: pairs}
        if isinstance(value, list):
            return [walk(item, f"{path}.{index}") for index, item in enumerate(value)]
        if isinstance(value, tuple):
            return {_TUPLE: [walk(item, f"{path}.{index}") for index, item in enumerate(value)]}
        raise InvalidInput(
            f"checkpoint state {path or '(top)'}: a {type(value).__name__} can't be stored; "
            "expected tensors, numbers, text, lists, tuples and mappings of them"
        )

    return walk(state, ""), tensors


def unflatten(plain: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    """Put nested state together again; the inverse of ``flatten``."""
    if isinstance(plain, dict):
        if _TENSOR in plain:
            return tensors[plain[_TENSOR]]
        if _TUPLE in plain:
            return tuple(unflatten(item, tensors) for item in plain[_TUPLE])
        if _PAIRS in plain:
            return {unflatten(key, tensors): unflatten(item, tensors) for key, item in plain[_PAIRS]}
        return {key: unflatten(item, tensors) for key, item in plain.items()}
    if isinstance(plain, list):
        return [unflatten(item, tensors) for item in plain]
    return plain


def render(state: Any) -> bytes:
    """Return nested state as bytes that other ranks can read with ``parse``."""
    plain, tensors = flatten(state)
    head = json.dumps(plain).encode()
    return len(head).to_bytes(8, "little") + head + render_tensors(tensors)


def parse(data: bytes) -> Any:
    """Return the state of which ``render`` made the bytes."""
    end = 8 + int.from_bytes(data[:8], "little")
    return unflatten(json.loads(data[8:end]), parse_tensors(data[end:]))


class Checkpoints:
    """The checkpoints in one directory, the last ``keep`` of them. One process writes, any number read."""

    def __init__(self, directory: Path, keep: int = 2) -> None:
        self.directory = directory
        self.keep = max(1, keep)

    def save(self, step: int, state: Any) -> None:
        """Write the state of a step; it counts once this returns, and not at all before.

        Raises:
            InvalidInput: see ``flatten``.
            Unusable: the directory can't be written.
        """
        plain, tensors = flatten(state)
        data = render_tensors(tensors)
        name = f"step-{step:010d}"
        manifest = {
            "kind": "checkpoint",
            "schema": SCHEMA,
            "step": step,
            "data": f"{name}.safetensors",
            "bytes": len(data),
            "crc32": zlib.crc32(data),
            "state": plain,
        }
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            crash_point("trainer.checkpoint.before-data")
            write_atomically(self.directory / f"{name}.safetensors", data)
            crash_point("trainer.checkpoint.before-manifest")
            write_atomically(self.directory / f"{name}.json", json.dumps(manifest).encode())
            crash_point("trainer.checkpoint.before-pointer")
            write_atomically(self.directory / "latest.json", json.dumps({"schema": SCHEMA, "step": step}).encode())
            crash_point("trainer.checkpoint.before-cleaning")
            self._clean(step)
        except OSError as error:
            raise Unusable(
                f"checkpoint directory {self.directory}: {error.strerror or error}; "
                "name one with room that can be written: the trainer's checkpoint_dir, or CONVOY_JOB_DIR"
            ) from error

    def steps(self) -> list[int]:
        """Return the steps of which there is a manifest, ascending."""
        try:
            entries = os.listdir(self.directory)
        except FileNotFoundError:
            return []
        return sorted(int(match[1]) for entry in entries if (match := _MANIFEST.match(entry)))

    def latest(self) -> int | None:
        """Return the last committed step, None where there is none; where the pointer is lost, the manifests tell."""
        try:
            pointed = int(json.loads((self.directory / "latest.json").read_bytes())["step"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            pointed = -1
        if self._is_complete(pointed):
            return pointed
        return next((step for step in reversed(self.steps()) if self._is_complete(step)), None)

    def load(self, step: int) -> Any:
        """Return the state of a step, tensors on the CPU.

        Raises:
            CorruptState: its files are absent or not whole.
            UnknownSchema: written by a newer version.
        """
        path = self.directory / f"step-{step:010d}.json"
        try:
            manifest = json.loads(path.read_bytes())
            schema = int(manifest["schema"])
            if schema > SCHEMA:
                raise UnknownSchema(f"{path}: schema {schema} is newer than {SCHEMA}; upgrade Convoy")
            data = (self.directory / manifest["data"]).read_bytes()
            if len(data) != manifest["bytes"]:
                raise CorruptState(f"{path}: {len(data)} bytes of data, expected {manifest['bytes']}; remove both")
            if zlib.crc32(data) != manifest["crc32"]:
                raise CorruptState(f"{path}: the data isn't what was written (its checksum differs); remove both")
            return unflatten(manifest["state"], parse_tensors(data))
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise CorruptState(
                f"{path}: no complete checkpoint ({error}); do all nodes see the same checkpoint directory?"
            ) from error

    def newest(self) -> tuple[int, Any] | None:
        """Return the last committed step that can be read, with its state; a damaged one is passed over and named.

        Raises:
            UnknownSchema: the last one was written by a newer version: training anew from an older one isn't meant.
        """
        latest = self.latest()
        if latest is None:
            return None
        older = [step for step in reversed(self.steps()) if step < latest and self._is_complete(step)]
        for step in (latest, *older):
            try:
                return step, self.load(step)
            except CorruptState as error:
                print(f"checkpoint of step {step} is passed over: {error}", file=sys.stderr)  # noqa: T201
        return None

    def _is_complete(self, step: int) -> bool:
        path = self.directory / f"step-{step:010d}.json"
        try:
            manifest = json.loads(path.read_bytes())
            return bool((self.directory / manifest["data"]).stat().st_size == manifest["bytes"])
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _clean(self, committed: int) -> None:
        """Keep the last ``keep`` up to the committed one. Manifests go before data: one never lacks its data."""
        steps = self.steps()
        kept = {f"step-{step:010d}" for step in [step for step in steps if step <= committed][-self.keep :]}
        for name in (f"step-{step:010d}" for step in steps):
            if name not in kept:
                (self.directory / f"{name}.json").unlink(missing_ok=True)
        for path in self.directory.glob("step-*.safetensors"):
            if path.stem not in kept:
                path.unlink(missing_ok=True)
        for path in self.directory.glob(".*.tmp"):  # left by a writer that was killed
            path.unlink(missing_ok=True)
