"""How long steps wait for their data, and the processes that load it: as many as Convoy says, changed at any step.

The wait is what passes between asking for a batch and having it, on the host's clock; a step waits for its loss
anyway, so that nothing is left in a GPU's queue that would hide it. Processes tell each other theirs with the samples
they count, so that a window tells the mean of all.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Generator
from torch.utils.data import DataLoader, Dataset

from convoy.core.api import names
from convoy.core.api.errors import InvalidInput, InvalidSetting
from convoy.trainer.place import Place
from convoy.trainer.sampler import GlobalSampler

_OF_PROCESSES = ("prefetch_factor", "timeout", "multiprocessing_context")
"""Options of torch's DataLoader that it refuses where the training process loads the data itself."""


class Loading:
    """Counts the waits of one process.

    Attributes:
        workers: processes that load its data, as its script took the number; None: it never asked.
    """

    def __init__(self) -> None:
        self.workers: int | None = None
        self._since_step = self._sum = 0.0
        self._waited, self._steps = False, 0

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time in which the body runs."""
        since = time.monotonic()
        try:
            yield
        finally:
            self._since_step += time.monotonic() - since
            self._waited = True

    def step(self) -> float:
        """Return the seconds since the last step that were waited."""
        seconds, self._since_step = self._since_step, 0.0
        return seconds

    def count(self, seconds: float) -> None:
        """Count a step; ``seconds`` is the mean of all processes' ``step``."""
        self._sum += seconds
        self._steps += 1

    def window(self) -> dict[str, float]:
        """Return the mean since the last call, as fields of ``SpeedSample``; nothing where no wait was counted."""
        told: dict[str, float] = {"loader_wait": self._sum / self._steps} if self._waited and self._steps else {}
        self._sum, self._steps = 0.0, 0
        return told | ({"loader_workers": self.workers} if self.workers is not None and told else {})


def told_at_start(environment: Mapping[str, str] = os.environ) -> int | None:
    """Return the processes that are to load each process's data, as the agent said at the start; None: it didn't.

    Raises:
        InvalidSetting: it isn't a whole number of 0 or more.
    """
    text = environment.get(names.ENV_LOADER_WORKERS, "")
    if text and not (text.isascii() and text.isdigit()):
        raise InvalidSetting(f"{names.ENV_LOADER_WORKERS}={text!r}: expected a whole number of 0 or more, or nothing")
    return int(text) if text else None


class Loader:
    """Loads a process's parts of the global batches, in their order, through torch's DataLoader.

    Which samples they are follows from the sampler's position alone, so the loader can be made anew with another
    number of processes before any batch; what was loaded ahead is dropped, and loaded again.

    Args:
        dataset: map-style; as long as the sampler's.
        sampler: says where training stands.
        place: whose parts.
        options: of DataLoader: ``collate_fn``, ``pin_memory``, ``prefetch_factor``, ``worker_init_fn``...

    Raises:
        InvalidInput: the data set is of another length.
    """

    def __init__(self, dataset: Dataset[Any], sampler: GlobalSampler, place: Place, options: dict[str, Any]) -> None:
        size = len(dataset)  # type: ignore[arg-type]
        if size != sampler.size:
            raise InvalidInput(f"the data set has {size} samples, the trainer's dataset_size is {sampler.size}")
        self._dataset, self._sampler, self._place, self._options = dataset, sampler, place, options
        self._batches: Iterator[Any] | None = None
        self._workers = -1

    def next(self, workers: int) -> Any:
        """Return what the data set has for the batch at the sampler's position, loaded by so many processes."""
        if workers != self._workers or self._batches is None:
            self.close()
            self._batches, self._workers = iter(self._made(workers)), workers
        return next(self._batches)

    def close(self) -> None:
        """End the processes."""
        self._batches = None

    def _made(self, workers: int) -> DataLoader[Any]:
        options = {name: value for name, value in self._options.items() if workers or name not in _OF_PROCESSES}
        here = self._sampler
        seed = np.random.SeedSequence([here.seed, here.position, self._place.rank]).generate_state(1)[0]
        return DataLoader(
            self._dataset,
            batch_sampler=self._rows(replace(here)),
            num_workers=workers,
            generator=Generator().manual_seed(int(seed)),  # its own: the process's random numbers stay as they are
            **options,
        )

    def _rows(self, ahead: GlobalSampler) -> Iterator[list[int]]:
        while True:
            yield ahead.batch(self._place.rank, self._place.world).tolist()
            ahead.advance()
