"""ElasticTrainer: training that keeps its global batch while workers come and go.

    device = worker_device()
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ElasticTrainer(model, optimizer, dataset_size=len(x), global_batch=512, checkpoint_every=20) as trainer:
        for batch in trainer.batches(steps=2000):
            loss = cross_entropy(trainer.model(x[batch.rows]), y[batch.rows])   # the mean over the rows
            trainer.step(loss)

Where samples come from a data set that is slow to read, ``trainer.loaded(data_set, steps)`` has them loaded ahead, by
as many processes as pay.

Run by itself the script trains in one process; under `convoy run` or torchrun in as many as there are. At each step
boundary all processes agree, in the all-reduce that adds up the samples, whether to go on. When the agent asks for it
they save and leave by ``Yielded``, to be started again in a larger or smaller world.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import Dataset

from convoy.core.api.errors import InvalidInput, JobFailed
from convoy.trainer import checkpoint, group, rng
from convoy.trainer.link import Link
from convoy.trainer.loading import Loader, Loading, told_at_start
from convoy.trainer.noise import GradientNoise
from convoy.trainer.place import Place
from convoy.trainer.sampler import GlobalSampler, share, shares
from convoy.trainer.steplog import Speedometer, StepLog

PEER_LOST_STATUS = 75
"""Exit status of a process that could not go on because another one was gone (EX_TEMPFAIL)."""


class Yielded(SystemExit):
    """The processes left at a step boundary, saved, because the agent asked for it. Ends the script with status 0.

    Let it pass: the script is started again and restores.
    """

    def __init__(self, step: int) -> None:
        super().__init__(0)
        self.step = step


@dataclass(frozen=True)
class Batch:
    """A process's part of one global batch.

    Attributes:
        step: number of the step that will be finished with it, from 1.
        rows: indices into the data set, int64 [local batch], on the trainer's device.
        epoch: the epoch in which the global batch begins, from 0.
    """

    step: int
    rows: torch.Tensor
    epoch: int


def worker_device() -> torch.device:
    """Return the device of this process: its GPU where each process of the node has one, else the CPU."""
    return group.device_of(Place.from_environment())


class ElasticTrainer:
    """Drives the steps of one training script.

    Args:
        model: on ``worker_device()``. Its initial weights are taken from process rank 0.
        optimizer: of the model's parameters.
        dataset_size: samples in the data set.
        global_batch: samples a step, all processes together; never less than the processes.
        scheduler: stepped after each step, if given.
        seed: of the order of samples and of the random generators.
        checkpoint_every: steps between checkpoints, 0 for none but at a yield and at the end.
        checkpoint_dir: where they go; by default ``checkpoints`` in the job's directory, else none is written.
        finish_file: training ends at the first boundary at which this file exists.
        timeout: seconds that a collective may take.
        gradient_noise: estimate the noise of gradients, by which the worth of larger batches is known; it costs a
            norm of the gradients a step, and is estimated where there are two processes or more.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        dataset_size: int,
        global_batch: int,
        scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
        seed: int = 0,
        checkpoint_every: int = 20,
        checkpoint_dir: Path | None = None,
        finish_file: Path | None = None,
        timeout: float = 600.0,
        gradient_noise: bool = False,
    ) -> None:
        self.place = Place.from_environment()
        self.device = group.device_of(self.place)
        if global_batch < self.place.world:
            raise InvalidInput(
                f"global batch of {global_batch} for {self.place.world} processes: expected at least one sample each"
            )
        self.model: nn.Module = model
        self.optimizer = optimizer
        self.sampler = GlobalSampler(dataset_size, global_batch, seed)
        self.finished_step = 0
        self.loss = float("nan")
        self._bare = model
        self._scheduler = scheduler
        self._every = checkpoint_every
        if checkpoint_dir is None and self.place.job_dir is not None:
            checkpoint_dir = self.place.job_dir / "checkpoints"
        self._checkpoints = checkpoint.Checkpoints(checkpoint_dir) if checkpoint_dir is not None else None
        self._finish_file = finish_file
        self._timeout = timeout
        self._link = Link(self.place.agent_socket, self.place.local_rank, told_at_start())
        self._loading = Loading()
        self._log = StepLog(self.place)
        self._speed = Speedometer(self.place, self._link, global_batch)
        self._wants_noise = gradient_noise and self.place.world > 1
        self._noise: GradientNoise | None = None
        self._owns_group = False
        self._saved_step = -1
        self._yield = self._finish = False

    @property
    def is_first(self) -> bool:
        """Whether this is process rank 0, which saves and prints."""
        return self.place.rank == 0

    def __enter__(self) -> Self:
        """Join the group, restore the last checkpoint, make the model data parallel."""
        try:
            self._owns_group = group.join(self.place, self.device, self._timeout)
            self._restore()
            devices = [self.device.index] if self.device.type == "cuda" else None
            self.model = model = nn.parallel.DistributedDataParallel(self._bare, device_ids=devices)
            if self._wants_noise:
                self._noise = GradientNoise(model, shares(self.sampler.global_batch, self.place.world))
        except Exception as error:
            self._leave_if_peer_lost(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the group; where another member is gone, tell the agent and exit with ``PEER_LOST_STATUS``."""
        if error is not None:
            self._leave_if_peer_lost(error)
        self._log.close()
        if self._owns_group and error is None:
            dist.destroy_process_group()
        self._link.close()

    def batches(self, steps: int) -> Iterator[Batch]:
        """Yield this process's part of each global batch up to step ``steps``; call ``step`` once for each.

        Raises:
            Yielded: the agent asked for it; the step is saved.
            JobFailed: ``step`` wasn't called for a batch.
        """
        self._speed.begin(self.finished_step, time.monotonic())
        while self.finished_step < steps and not self._finish:
            number = self.finished_step + 1
            rows = self.sampler.batch(self.place.rank, self.place.world)
            yield Batch(number, torch.from_numpy(rows).to(self.device), self.sampler.epoch)
            if self.finished_step != number:
                raise JobFailed(f"step {number}: expected one call of trainer.step(loss) for each batch, got none")
            if self._yield:
                self.save()
                self._log.event("yielded", number)
                self._link.tell_surely("yielded", step=number)
                raise Yielded(number)
            if self._every and number % self._every == 0 and number < steps and not self._finish:
                self.save()
        if self.finished_step != self._saved_step:
            self.save()

    def loaded(
        self, dataset: Dataset[Any], steps: int, *, workers: int = 0, **options: Any
    ) -> Iterator[tuple[Batch, Any]]:
        """Yield ``batches(steps)``, each with what the data set has for its rows, loaded ahead by processes.

        How many they are Convoy says once it knows how long steps wait for their data, and changes between steps.

        Args:
            dataset: map-style, of ``dataset_size`` samples.
            steps: as with ``batches``.
            workers: processes that load, until Convoy says; 0: none but this one.
            options: of torch's DataLoader (``collate_fn``, ``pin_memory``, ``prefetch_factor``...).

        Raises:
            InvalidInput: the data set is of another length.
            Yielded, JobFailed: as with ``batches``.
        """
        with closing(Loader(dataset, self.sampler, self.place, options)) as loader:
            for batch in self.batches(steps):
                with self.loading():
                    data = loader.next(self.loader_workers(workers))
                yield batch, data

    def loader_workers(self, given: int) -> int:
        """Return the processes that are to load this process's data: Convoy's number, else the given one.

        For scripts with a loader of their own (``num_workers`` of torch's DataLoader); ask again where it can be made
        anew, as at the beginning of an epoch.
        """
        told = self._link.loader_workers
        number = given if told is None else told
        if number != self._loading.workers:
            self._loading.workers = number
            self._speed.begin(self.finished_step, time.monotonic())  # speeds with either number aren't mixed
        return number

    def loading(self) -> AbstractContextManager[None]:
        """Return a context in which the script waits for its data, so that the time is told: a loader of its own."""
        return self._loading.waiting()

    def step(self, loss: torch.Tensor) -> float:
        """Finish one step from the mean loss over the local rows; return the mean loss over the global batch.

        Gradients are averaged over processes with the weight of their rows, so they are those of the global batch
        also where it doesn't divide evenly.

        Raises:
            JobFailed: the processes' samples don't add up to the global batch.
        """
        place, total = self.place, self.sampler.global_batch
        start, end = share(total, place.rank, place.world)
        fraction = (end - start) / total
        (loss * (fraction * place.world)).backward()  # type: ignore[no-untyped-call]
        self._link.listen()
        wants_yield = self._link.yield_round != 0 and self._link.yield_round == place.round
        wants_finish = self._finish_file is not None and self.is_first and self._finish_file.exists()
        mine = [float(end - start), float(wants_yield), float(wants_finish), float(loss.detach()) * fraction]
        norm = self._noise.local(fraction * place.world) / place.world if self._noise is not None else 0.0
        wait = self._loading.step() / place.world
        count, yields, finishes, mean, norm, wait = group.add([*mine, norm, wait], self.device)
        if count != total:
            raise JobFailed(f"step {self.finished_step + 1}: {count:g} samples taken, the global batch is {total}")
        if self._noise is not None:
            self._noise.count(norm)
        self._loading.count(wait)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self._scheduler is not None:
            self._scheduler.step()
        self.sampler.advance()
        self.finished_step += 1
        self.loss = mean
        self._yield, self._finish = yields > 0, finishes > 0
        self._log.step(
            self.finished_step, now=time.time(), global_batch=int(count), local_batch=end - start, loss=mean
        )
        self._speed.count(self.finished_step, time.monotonic(), self._noise, self._loading)
        return mean

    def save(self) -> None:
        """Write a checkpoint of the last finished step; all processes call it, rank 0 writes, all wait for it."""
        if self._checkpoints is None:
            return
        states = group.gather(checkpoint.render(rng.capture()), self.device)
        if self.is_first:
            self._checkpoints.save(self.finished_step, self._state([checkpoint.parse(state) for state in states]))
            self._log.event("checkpoint", self.finished_step)
            self._link.tell("checkpoint", step=self.finished_step)
        group.add([0.0], self.device)
        self._saved_step = self.finished_step

    def _state(self, generators: list[Any]) -> dict[str, Any]:
        return {
            "step": self.finished_step,
            "model": self._bare.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self._scheduler is None else self._scheduler.state_dict(),
            "sampler": self.sampler.state(),
            "generators": generators,
        }

    def _restore(self) -> None:
        newest = self._checkpoints.newest() if self._checkpoints is not None and self.is_first else None
        step = group.announce(-1 if newest is None else newest[0], self.device)
        if step < 0 or self._checkpoints is None:
            rng.seed(self.sampler.seed, self.place.rank)
            return
        state = newest[1] if newest is not None else self._checkpoints.load(step)
        self._bare.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self._scheduler is not None:
            self._scheduler.load_state_dict(state["scheduler"])
        self.sampler.restore(state["sampler"])
        if self.place.rank < len(state["generators"]):
            rng.restore(state["generators"][self.place.rank])
        else:  # a rank that was not there: a stream of its own
            rng.seed(self.sampler.seed + step, self.place.rank)
        self.finished_step = self._saved_step = step
        self._log.event("restored", step)
        self._link.tell("restored", step=step)

    def _leave_if_peer_lost(self, error: BaseException) -> None:
        if self.place.world > 1 and group.is_peer_lost(error):
            message = str(error).strip().splitlines()[0][:500]
            self._link.tell_surely("peer_lost", message=message)
            print(f"rank {self.place.rank}: another process is gone: {message}", file=sys.stderr)  # noqa: T201
            raise SystemExit(PEER_LOST_STATUS) from None
