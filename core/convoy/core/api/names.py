"""Names, labels, environment variables and annotations: DLRover's where users' scripts count on them.

A pod's name follows from (job, role, id), a service's from (job, role, rank): running an action twice meets the
same name and does nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence

GROUP = "elastic.iml.github.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

MANAGED_BY = f"{GROUP}/convoy"
"""What ``spec.managedBy`` says of a job that is Convoy's, if anything."""

# Roles (keys of spec.replicaSpecs).
WORKER = "worker"
PS = "ps"
CHIEF = "chief"
EVALUATOR = "evaluator"
MASTER = "dlrover-master"
NODE_ROLES = (WORKER, PS, CHIEF, EVALUATOR)

# Labels on pods and services.
LABEL_APP_NAME = "app.kubernetes.io/name"
APP_NAME = "elasticjob"
LABEL_APP = "app"
LABEL_JOB = "elasticjob.dlrover/name"
LABEL_ROLE = "elasticjob.dlrover/replica-type"
LABEL_ID = "elasticjob.dlrover/replica-index"
LABEL_RANK = "elasticjob.dlrover/rank-index"
LABEL_RELAUNCHES = "elasticjob.dlrover/relaunch-count"
LABEL_SCALE_TYPE = "scale-type"
SCALE_AUTO = "auto"
SCALE_MANUAL = "manual"

# Labels on jobs.
LABEL_USER = "user"
LABEL_MODEL = "model"
LABEL_DATASET = "dataset"
"""Whose the job is, what it trains and on what, for the Brain's records."""

# Annotations of ours.
ANNOTATION_WORKING_DIRECTORY = "convoy/working-directory"
"""Directory in which one machine runs the job's pods: where `convoy submit --local` found the manifest."""
ANNOTATION_NICE = "convoy/nice"
"""``"0"`` to ``"19"``: how far a pod yields the CPU to others on one machine; the control plane does to training."""
ANNOTATION_EPOCH = "convoy/epoch"
"""On a master's state: the epoch of the master that wrote it."""
ANNOTATION_PIN = "convoy/pin"
"""``"true"``: the Brain says what it would recommend for this job, and that it keeps its size."""
ANNOTATION_FREEZE = "convoy/freeze"
"""Times (UTC) in which the job isn't changed: ``Mon-Fri 08:00-18:00, 2026-12-24T00:00Z/2027-01-02T00:00Z``."""
ANNOTATION_OBJECTIVE = "convoy/objective"
"""``throughput``, ``cost`` or ``deadline``: what the Brain plans the job for."""
ANNOTATION_DEADLINE = "convoy/deadline"
"""When the job is to be finished: ``2026-12-24T18:00:00Z``."""
ANNOTATION_TOTAL_SAMPLES = "convoy/total-samples"
"""How many samples the job trains on in all, over its epochs."""
ANNOTATION_ALLOWED_WORKERS = "convoy/allowed-workers"
"""The only numbers of workers that the job can run with, by tensor or pipeline parallelism, say: ``8,16,32``."""
ANNOTATION_MAX_BATCH = "convoy/max-batch"
"""Samples of a step, of all workers together, up to which the Brain may raise the batch."""

# Convoy's own pods.
SYSTEM_NAMESPACE = "convoy-system"
BRAIN_TOKEN_SECRET = "convoy-brain-token"
"""Secret in the system namespace whose key ``token`` the Brain asks of its callers."""
CONTROL_NICE = "5"
"""ANNOTATION_NICE of masters and of the Brain."""

# Who writes objects' fields.
MANAGER_OPERATOR = "convoy-operator"
MANAGER_MASTER = "convoy-master"
MANAGER_CLI = "convoy-cli"
MANAGER_BRAIN = "convoy-brain"

CONDITION_FINISHED = "Finished"
"""A plan's condition; while it is False its reason says what is waited for."""

MASTER_PORT = 50001
"""Port of a master's service where the cluster chooses none."""

# Environment of a node's pod.
ENV_JOB_NAME = "ELASTIC_JOB_NAME"
ENV_JOB_UID = "JOB_UID"
ENV_POD_NAME = "POD_NAME"
ENV_POD_NAMESPACE = "POD_NAMESPACE"
ENV_POD_IP = "POD_IP"
ENV_NODE_IP = "NODE_IP"
ENV_NODE_TYPE = "NODE_TYPE"
ENV_NODE_ID = "NODE_ID"
ENV_NODE_RANK = "NODE_RANK"
ENV_NODE_NUM = "NODE_NUM"
ENV_MASTER_ADDRESS = "DLROVER_MASTER_ADDR"
ENV_BRAIN_ADDRESS = "DLROVER_BRAIN_SERVICE_ADDR"
ENV_MASTER_PORT = "CONVOY_MASTER_PORT"
ENV_JOB_TOKEN = "CONVOY_JOB_TOKEN"
ENV_BRAIN_TOKEN = "CONVOY_BRAIN_TOKEN"
ENV_JOB_DIR = "CONVOY_JOB_DIR"
"""A directory that all pods of the job share and that outlives them: checkpoints, step logs, the master's state."""
ENV_WORKER_CPU = "CONVOY_WORKER_CPU"
"""Cores that the node's pod requests; absent where it requests none."""
ENV_WORKER_MEMORY = "CONVOY_WORKER_MEMORY"
"""Bytes that it requests; absent where it requests none."""
ENV_AGENT_SOCKET = "CONVOY_AGENT_SOCKET"
"""Unix socket on which the agent listens to its workers (see convoy.agent.channel)."""
ENV_LOADER_WORKERS = "CONVOY_LOADER_WORKERS"
"""Processes that are to load each worker process's data; absent: as the script says."""


def pod(job: str, role: str, node_id: int) -> str:
    """Return the name of a node's pod; ``node_id`` grows with every relaunch."""
    return f"{job}-edljob-{role}-{node_id}"


def service(job: str, role: str, rank: int) -> str:
    """Return the name of a node's service; the rank stays through relaunches."""
    return f"{job}-edljob-{role}-{rank}"


def master_pod(job: str, index: int) -> str:
    """Return the name of the job master's pod; the index grows with every master."""
    return f"elasticjob-{job}-dlrover-master-{index}"


def master_service(job: str) -> str:
    """Return the name of the master's stable service."""
    return f"elasticjob-{job}-dlrover-master"


def master_state(job: str) -> str:
    """Return the name of the ConfigMap in which masters keep their state, where no folder outlives them."""
    return f"{master_service(job)}-state"


LONGEST_LABEL = 63
"""Characters of a label's value, of a service's name, and of a host name."""
LONGEST_JOB = LONGEST_LABEL - len(master_pod("", 0))
"""Characters of a job's name from which all of these can be made."""
JOB_NAME = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""What a job's name is like, as part of host names."""


def token_secret(job: str) -> str:
    """Return the name of the Secret that holds the job's token."""
    return f"{job}-convoy-token"


def job_folder(job: str, uid: str) -> str:
    """Return the name of the folder that a job's pods share: another one for each job of a name."""
    return f"{job}-{uid[:8]}"


def main_container(containers: Sequence[str]) -> int:
    """Return which of a pod's containers, by their names, trains: the one named ``main``, else the first."""
    return next((index for index, name in enumerate(containers) if name == "main"), 0)


def scale_plan(job: str, number: int) -> str:
    """Return the name of the master's scale plan of that number."""
    return f"{job}-scaleplan-{number}"


def advised_plan(job: str, recommendation: str) -> str:
    """Return the name of the scale plan that an accepted recommendation becomes."""
    return f"{job}-advice-{recommendation[:8]}"


def pod_labels(job: str, role: str, *, node_id: int, rank: int, relaunches: int = 0) -> dict[str, str]:
    """Return the labels that a pod of the job carries; a master carries them too."""
    return {
        LABEL_APP_NAME: APP_NAME,
        LABEL_APP: "dlrover",
        LABEL_JOB: job,
        LABEL_ROLE: role,
        LABEL_ID: str(node_id),
        LABEL_RANK: str(rank),
        LABEL_RELAUNCHES: str(relaunches),
    }
