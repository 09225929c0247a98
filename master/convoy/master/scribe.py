"""Writes to the cluster what was decided: scale plans, answers to people's plans, the job's status. Tries again.

All writes pass through one thread, in order, so that an earlier status never overtakes a later one.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from convoy.core.api import names
from convoy.core.api.errors import AlreadyExists, Conflict, ConvoyError, NotFound, StaleEpoch
from convoy.core.api.meta import Manifest, controller_uid
from convoy.core.api.plan import PlanPhase
from convoy.core.cluster.port import Cluster, Kind
from convoy.core.process import logs
from convoy.core.process.crashpoint import crash_point
from convoy.master import convert, status
from convoy.master.brain import Reach
from convoy.master.conductor import Conductor
from convoy.master.decide.actions import AnswerManualPlan
from convoy.master.decide.events import PlanObserved
from convoy.master.decide.state import Plan

log = logs.get("master.scribe")

_STATUS_EVERY = 1.0
_LOOK_EVERY = 0.25
_RETRY_SECONDS = 1.0
_WRITE_TRIES = 10


class Scribe:
    """The master's pen.

    ``reach`` tells whether the Brain is there, None where none is configured; ``progress_every``: seconds between two
    writes of a status in which only the training's progress is new.
    """

    def __init__(
        self,
        cluster: Cluster,
        conductor: Conductor,
        pod: str,
        owner: Manifest,
        condition: Manifest | None,
        reach: Callable[[], Reach | None],
        *,
        progress_every: float = _STATUS_EVERY,
    ) -> None:
        self._cluster = cluster
        self._conductor = conductor
        self._pod = pod
        self._owner = owner
        self._condition = condition
        self._reach = reach
        self._progress_every = progress_every
        self._written_at = -math.inf
        self._due = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="master-scribe")

    def plan_is_due(self) -> None:
        """Have the plan that was decided written now."""
        self._due.set()

    async def write_plans(self) -> None:
        """Write each plan that is decided, until it is there; runs until cancelled."""
        written = ""
        while True:
            plan = self._conductor.state.job.plan
            if plan is not None and plan.name != written:
                crash_point("master.before-plan")
                if await self._write_plan(plan):
                    written = plan.name
                    crash_point("master.after-plan")
                    continue
            self._due.clear()
            try:
                async with asyncio.timeout(_RETRY_SECONDS):
                    await self._due.wait()
            except TimeoutError:
                continue

    async def answer(self, action: AnswerManualPlan) -> bool:
        """Answer a person's plan; return whether that was written."""
        facts = self._conductor.state.facts
        answer = convert.answer_manifest(
            action.name,
            facts.namespace,
            action.accepted,
            action.reason,
            action.message,
            self._conductor.clock.now(),
        )
        try:
            await self._apply_status(answer)
        except ConvoyError as error:
            log.warning("a person's plan couldn't be answered; it is tried again", plan=action.name, why=str(error))
            return False
        return True

    async def write_status(self, on_gone: Callable[[], None], on_fenced: Callable[[str], None]) -> None:
        """Write the status when it changed, at most once a second; what only moves with the steps less often.

        Runs until cancelled, or until a newer master's epoch stands there: then ``on_fenced`` is told.
        """
        last: Manifest | None = None
        while True:
            before = last
            try:
                last = await self._put_status(last)
            except NotFound:
                on_gone()
            except StaleEpoch as error:
                on_fenced(str(error))
                return
            except ConvoyError as error:
                log.warning("the status couldn't be written; trying again", reason=error.reason, why=str(error))
            await asyncio.sleep(_STATUS_EVERY if last is not before else _LOOK_EVERY)

    async def write_last_status(self, seconds: float) -> None:
        """Write the status as it stands, trying for so many seconds."""
        clock = self._conductor.clock
        end = clock.monotonic() + seconds
        while clock.monotonic() < end:
            try:
                await self._put_status(None)
            except (NotFound, StaleEpoch):
                return
            except ConvoyError as error:
                log.warning("the last status couldn't be written; trying again", reason=error.reason, why=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    def close(self) -> None:
        """Wait for the write that is under way."""
        self._thread.shutdown(wait=True)

    async def _write_plan(self, plan: Plan) -> bool:
        state = self._conductor.state
        facts, epoch = state.facts, state.job.epoch
        manifest = convert.plan_manifest(plan, facts.name, facts.namespace, epoch, self._owner)
        try:
            await self._in_thread(lambda: self._cluster.create(manifest, field_manager=names.MANAGER_MASTER))
        except AlreadyExists:
            return await self._reread_plan(plan)
        except ConvoyError as error:
            log.error("a plan couldn't be written; trying again", plan=plan.name, reason=error.reason, why=str(error))
            return False
        return True

    async def _reread_plan(self, plan: Plan) -> bool:
        """Take in where the plan of that name stands; False where it has to be written (again)."""
        namespace = self._conductor.state.facts.namespace
        try:
            found: Manifest = await self._in_thread(lambda: self._cluster.get(Kind.SCALE_PLAN, namespace, plan.name))
        except ConvoyError as error:
            log.warning("a plan couldn't be read; trying again", plan=plan.name, reason=error.reason, why=str(error))
            return False
        if controller_uid(found) != self._owner["uid"]:
            log.warning("a plan of that name is an earlier job's; waiting until it is deleted", plan=plan.name)
            return False
        there = found.get("status") or {}
        last = (there.get("conditions") or [{}])[-1]
        phase = PlanPhase(there.get("phase") or PlanPhase.PENDING)
        await self._conductor.post(PlanObserved(plan.name, phase, last.get("reason", ""), last.get("message", "")))
        return True

    async def _put_status(self, last: Manifest | None) -> Manifest:
        conductor = self._conductor
        state, now = conductor.state, conductor.clock.now()
        self._condition = status.brain_condition(state, self._reach(), self._condition, now)
        manifest = status.manifest(state, self._pod, status.training(state, now, conductor.policy), self._condition)
        moved_only = status.without_progress(manifest) == status.without_progress(last)
        early = conductor.clock.monotonic() < self._written_at + self._progress_every
        if last is not None and (manifest == last or (moved_only and early)):
            return last
        await self._in_thread(lambda: self._write_ours(manifest))
        self._written_at = conductor.clock.monotonic()
        return manifest

    def _write_ours(self, manifest: Manifest) -> None:
        """Write the job's status onto what was read just before, so that a newer master's epoch is never lowered.

        Raises:
            StaleEpoch: a newer master holds the job.
            NotFound: the job is gone.
            Conflict: others change the job all the time.
        """
        metadata, epoch = manifest["metadata"], manifest["status"]["master"]["epoch"]
        for attempt in range(1, _WRITE_TRIES + 1):
            found = self._cluster.get(Kind.ELASTIC_JOB, metadata["namespace"], metadata["name"])
            stored = ((found.get("status") or {}).get("master") or {}).get("epoch") or 0
            if found["metadata"]["uid"] == metadata["uid"] and stored > epoch:
                raise StaleEpoch(f"the job's epoch is {stored}, this master's is {epoch}")
            version = found["metadata"]["resourceVersion"]
            try:
                self._cluster.apply_status(
                    {**manifest, "metadata": {**metadata, "resourceVersion": version}},
                    field_manager=names.MANAGER_MASTER,
                )
            except Conflict:
                if attempt == _WRITE_TRIES:
                    raise
            else:
                return

    async def _apply_status(self, manifest: Manifest) -> None:
        await self._in_thread(lambda: self._cluster.apply_status(manifest, field_manager=names.MANAGER_MASTER))

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
