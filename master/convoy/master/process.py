"""The process of a job's master: ``convoy master``."""

from __future__ import annotations

import asyncio
import gc
import sys
from concurrent.futures import ThreadPoolExecutor

from convoy.core.api import names
from convoy.core.api.errors import InvalidSetting
from convoy.core.process import logs
from convoy.core.process.quiet import quiet_grpc
from convoy.core.rpc.exposure import refuse_exposed
from convoy.master.settings import MasterSettings


def run(settings: MasterSettings) -> None:
    """Be the job's master until the job is over or SIGTERM comes. Exits with 3 when a newer master holds the job.

    Raises:
        InvalidSetting: no job is named, or there is no token where others than this machine can call.
        NotFound: no such job.
        InvalidManifest: the job's manifest is wrong.
        Unusable: the port is in use, or a folder can't be used.
        StateError: the state on disk can't be used.
    """
    if not settings.job:
        raise InvalidSetting("job: is required, and is absent; name it with --job or ELASTIC_JOB_NAME")
    token = settings.job_token.get_secret_value()
    refuse_exposed(settings.host, "host", token, "job_token", names.ENV_JOB_TOKEN)
    quiet_grpc()
    logs.configure("master", job=settings.job)
    status = asyncio.run(_run(settings))
    if status:
        sys.exit(status)


async def _run(settings: MasterSettings) -> int:
    from convoy.core.api.errors import Fenced
    from convoy.core.process.signals import async_stop_event
    from convoy.master.accepted import AcceptedSpec
    from convoy.master.decide.policy import Policy
    from convoy.master.job_master import EXIT_FENCED, JobMaster, take_epoch
    from convoy.master.surroundings import surroundings

    gc.freeze()  # what was imported stays: collections needn't look at it
    io = ThreadPoolExecutor(max_workers=8, thread_name_prefix="master-io")
    asyncio.get_running_loop().set_default_executor(io)
    stop = async_stop_event()
    policy = Policy(
        heartbeat=min(3.0, settings.heartbeat_deadline / 3), heartbeat_deadline=settings.heartbeat_deadline
    )
    with surroundings(settings) as (cluster, store):
        accepted = AcceptedSpec(store)
        namespace, name, pod = settings.namespace, settings.job, settings.pod
        taken = await asyncio.to_thread(take_epoch, cluster, namespace, name, pod, accepted)
        state = store(taken.job.metadata)
        try:
            return await JobMaster(cluster, settings, taken, policy, accepted, state).run(stop)
        except Fenced as error:
            logs.get("master").error("a newer master holds the job; it stops", reason=error.reason, why=str(error))
            return EXIT_FENCED
