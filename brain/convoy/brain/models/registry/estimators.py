"""scikit-learn's estimators in a model's state: skops' bytes as a tensor, never pickle.

skops writes an estimator as a zip of a JSON schema and arrays. On reading, it builds nothing whose type isn't known
to be harmless or named by the caller; what is named here is a model's own short list.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import skops.io
from numpy.typing import NDArray

from convoy.core.api.errors import CorruptState

LARGEST = 512 * 2**20
"""Bytes that the zip may hold unpacked."""
MOST_PARTS = 100_000


def to_tensor(estimator: Any) -> NDArray[np.generic]:
    """Return a fitted estimator as bytes (uint8, one dimension)."""
    return np.frombuffer(skops.io.dumps(estimator, compression=zipfile.ZIP_DEFLATED), dtype=np.uint8).copy()


def from_tensor(tensor: NDArray[np.generic], kind: type[Any], *, trusted: Sequence[str] = ()) -> Any:
    """Return the estimator that ``to_tensor`` wrote.

    Args:
        tensor: its bytes.
        kind: that it has to be.
        trusted: types beyond scikit-learn's and numpy's own that it may hold, by their full name.

    Raises:
        CorruptState: no estimator of that kind, damaged, larger than any is unpacked, or with a type that isn't
            trusted (``UntrustedType``; nothing of it was built).
    """
    content = tensor.tobytes()
    _refuse_bomb(content)
    try:
        found = skops.io.get_untrusted_types(data=content)
        strange = sorted(set(found) - set(trusted))
        if strange:
            raise CorruptState(
                f"estimator: holds {', '.join(strange)}, which nobody trusts; nothing of it was built. Fit the model "
                "anew",
                reason="UntrustedType",
            )
        estimator = skops.io.loads(content, trusted=list(trusted))
    except CorruptState:
        raise
    except Exception as error:  # skops raises whatever its parts do
        raise _corrupt(f"can't be read: {type(error).__name__}: {error}") from None
    if not isinstance(estimator, kind):
        raise _corrupt(f"is a {type(estimator).__name__}, expected {kind.__name__}")
    return estimator


def _refuse_bomb(content: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = archive.infolist()
    except Exception as error:  # zipfile has no error of its own for what it can't do or make out
        raise _corrupt(f"not what skops writes: {error}") from None
    unpacked = sum(part.file_size for part in parts)
    if unpacked > LARGEST or len(parts) > MOST_PARTS:
        raise _corrupt(f"{len(parts):,} parts of {unpacked:,} bytes unpacked are more than any has")


def _corrupt(what: str) -> CorruptState:
    return CorruptState(f"estimator: {what}", reason="ModelFileCorrupt")
