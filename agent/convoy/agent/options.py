"""What a launch is to do: the flags and the pod's environment, checked against each other."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from convoy.agent import flags
from convoy.core.api import names
from convoy.core.api.errors import InvalidSetting

Kind = Literal["path", "module", "program"]
_CONF_DEFAULTS = {"lastcall_timeout": "60", "pend_timeout": "inf"}


@dataclass(frozen=True)
class Options:
    """One launch.

    Attributes:
        master: host:port of the job's master; None: this node alone.
        processes: workers on this node.
        fresh: start workers as new interpreters instead of forks.
        redirects, tee: streams by local rank as ``flags.streams`` gives them.
        shown: local ranks that write to the console; empty: all.
        left_out: what was asked for and isn't carried out, as it changes no result.
    """

    kind: Kind
    script: str
    arguments: tuple[str, ...]
    master: str | None
    min_nodes: int
    max_nodes: int
    node_unit: int
    processes: int
    node_rank: int
    node_id: int
    node_role: str
    host: str | None
    master_port: int | None
    run_id: str
    role: str
    join_timeout: float
    max_restarts: int
    shutdown_timeout: float
    signals: tuple[signal.Signals, ...]
    fresh: bool
    virtual_local_rank: bool
    log_dir: Path | None
    redirects: Mapping[int | None, int]
    tee: Mapping[int | None, int]
    shown: frozenset[int]
    preload: tuple[str, ...]
    left_out: tuple[flags.LeftOut, ...] = ()


def load(argv: Sequence[str], environment: Mapping[str, str], program: str) -> Options:
    """Read the command line and the environment.

    Raises:
        InvalidSetting: something in it can't be right; the message names it, its value and the remedy.
    """
    values, left_out, command = flags.parse(argv, environment, program)
    if not command:
        raise InvalidSetting(f"no script given; expected {program} [flags] SCRIPT [arguments]")
    kind: Kind = "module" if values["module"] else "program" if values["no_python"] else "path"
    if values["module"] and values["no_python"]:
        raise InvalidSetting("--module and --no-python exclude each other; give one of them")
    _check_script(kind, command[0], run_path=values["run_path"])
    min_nodes, max_nodes = values["nnodes"]
    processes = values["nproc_per_node"]
    if values["auto_config"]:
        min_nodes = max_nodes = _number(environment, names.ENV_NODE_NUM, 1, least=1)
        processes = max(1, gpus(environment))
    master = None if values["standalone"] else _master(values, environment)
    if values["standalone"] and max_nodes > 1:
        raise InvalidSetting(
            f"--standalone with --nnodes={min_nodes}:{max_nodes}: one node alone; leave one of them out"
        )
    if master is None and max_nodes > 1:
        raise InvalidSetting(
            f"--nnodes={min_nodes}:{max_nodes}: no master is known to meet the other nodes at; set "
            f"{names.ENV_MASTER_ADDRESS}=HOST:PORT, or give --rdzv-backend=convoy --rdzv-endpoint=HOST:PORT"
        )
    rank = values["node_rank"] if values["node_rank"] is not None else _number(environment, names.ENV_NODE_RANK, 0)
    if values["log_dir"] is None and (any(values["redirects"].values()) or any(values["tee"].values())):
        raise InvalidSetting("--redirects and --tee write files: name their directory with --log-dir=DIR")
    shutdown = values["shutdown_timeout"]
    if shutdown is None:
        variable = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
        try:
            shutdown = flags.seconds(environment.get(variable, "30"))
        except ValueError as error:
            raise InvalidSetting(f"{variable}={environment[variable]}: {error}") from None
    return Options(
        kind=kind,
        script=command[0],
        arguments=tuple(command[1:]),
        master=master,
        min_nodes=min_nodes,
        max_nodes=max_nodes,
        node_unit=values["node_unit"],
        processes=_count(processes, environment),
        node_rank=rank,
        node_id=_number(environment, names.ENV_NODE_ID, rank),
        node_role=environment.get(names.ENV_NODE_TYPE) or names.WORKER,
        host=values["local_addr"] or environment.get(names.ENV_POD_IP) or None,
        master_port=values["master_port"],
        run_id=values["rdzv_id"] if values["rdzv_id"] != "none" else environment.get(names.ENV_JOB_NAME, "none"),
        role=values["role"],
        join_timeout=_join_timeout(values["rdzv_conf"]),
        max_restarts=values["max_restarts"],
        shutdown_timeout=shutdown,
        signals=values["signals_to_handle"],
        fresh=values["start_method"] == "spawn",
        virtual_local_rank=values["virtual_local_rank"],
        log_dir=Path(values["log_dir"]) if values["log_dir"] is not None else None,
        redirects=values["redirects"],
        tee=values["tee"],
        shown=values["local_ranks_filter"],
        preload=tuple(filter(None, environment.get("CONVOY_PRELOAD", "").replace(" ", "").split(","))),
        left_out=left_out,
    )


def gpus(environment: Mapping[str, str]) -> int:
    """Return the NVIDIA GPUs that a process started here would see."""
    present = len([entry for entry in os.listdir("/dev") if re.fullmatch(r"nvidia\d+", entry)])
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    return present if visible is None else min(present, len([part for part in visible.split(",") if part.strip()]))


def _check_script(kind: Kind, script: str, *, run_path: bool) -> None:
    if kind == "path":
        if not os.path.exists(script):
            raise InvalidSetting(f"script {script}: no such file in {os.getcwd()}; name one that exists")
        if run_path and not os.path.isabs(script):
            raise InvalidSetting(f"--run-path with {script}: expected an absolute path")
    elif kind == "program":
        if shutil.which(script) is None:
            raise InvalidSetting(f"program {script}: not found, or not executable; name one on PATH, or its path")
    elif kind == "module":
        top = script.partition(".")[0]
        here = os.path.isdir(top) or os.path.exists(f"{top}.py")
        if not here and importlib.util.find_spec(top) is None:
            raise InvalidSetting(f"module {script}: no module or package named {top}; run where it can be imported")


def _master(values: Mapping[str, Any], environment: Mapping[str, str]) -> str | None:
    named = environment.get(names.ENV_MASTER_ADDRESS, "")
    ours = values["rdzv_backend"] in ("convoy", "dlrover-master")
    if values["rdzv_endpoint"] and ours:
        return str(values["rdzv_endpoint"])
    if named:
        try:
            return flags.endpoint(named)
        except ValueError as error:
            raise InvalidSetting(f"{names.ENV_MASTER_ADDRESS}={named}: {error}") from None
    if ours:
        raise InvalidSetting(
            f"--rdzv-backend={values['rdzv_backend']} needs the master's address: "
            f"give --rdzv-endpoint=HOST:PORT or set {names.ENV_MASTER_ADDRESS}"
        )
    return None


def _join_timeout(conf: Mapping[str, str]) -> float:
    for key, value in conf.items():
        if key not in ("join_timeout", "timeout") and _CONF_DEFAULTS.get(key) != value:
            raise InvalidSetting(f"--rdzv-conf {key}={value} isn't honoured; expected join_timeout=SECONDS alone")
    text = conf.get("join_timeout", conf.get("timeout", "600"))
    try:
        return flags.seconds(text)
    except ValueError as error:
        raise InvalidSetting(f"--rdzv-conf join_timeout={text}: {error}") from None


def _count(processes: int | str, environment: Mapping[str, str]) -> int:
    if isinstance(processes, int):
        return processes
    found = gpus(environment)
    if processes == "gpu" and found == 0:
        raise InvalidSetting("--nproc-per-node=gpu: there is no NVIDIA GPU here; give a number, or cpu")
    cores = len(os.sched_getaffinity(0))
    return cores if processes == "cpu" else found or cores


def _number(environment: Mapping[str, str], name: str, default: int, *, least: int = 0) -> int:
    text = environment.get(name) or str(default)
    try:
        return int(flags.whole(least)(text))
    except ValueError as error:
        raise InvalidSetting(f"{name}={text}: {error}") from None
