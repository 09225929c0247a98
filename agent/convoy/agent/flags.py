"""The flags of `convoy run` and `dlrover-run`: every one of torchrun and of DLRover, in both spellings.

A value comes from the flag, else from the environment (``PET_`` and the flag's name), else it is the default. What
Convoy doesn't honour is refused by a sentence, unless it is the default; where leaving it out changes no result of
the training it is accepted, and said to be left out. Nothing heavy is imported: a wrong flag is told at once.
"""

from __future__ import annotations

import argparse
import math
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from convoy.core.api.errors import InvalidSetting

Parse = Callable[[str], Any]


@dataclass(frozen=True)
class Flag:
    """One flag.

    Attributes:
        unless_default: the remedy where no other value than the default is honoured.
        without: what is missing where another value than the default is accepted without being carried out.
        reason: of the event that says so to the job's master.
    """

    name: str
    group: str
    help: str
    parse: Parse
    default: Any = None
    switch: bool = False
    short: str | None = None
    metavar: str | None = None
    unless_default: str | None = None
    without: str | None = None
    reason: str = "FlagLeftOut"

    @property
    def dest(self) -> str:
        """Its name in the environment, in lower case, and among the values."""
        return self.name.replace("-", "_")

    @property
    def spellings(self) -> list[str]:
        """What may be written on the command line."""
        both = [f"--{self.name.replace('_', '-')}", f"--{self.dest}"]
        return ([self.short] if self.short else []) + list(dict.fromkeys(both))


@dataclass(frozen=True)
class LeftOut:
    """What was asked for, isn't carried out, and changes no result: an event's reason and its message."""

    reason: str
    message: str


def nodes(text: str) -> tuple[int, int]:
    """Parse ``N`` or ``MIN:MAX``."""
    match = re.fullmatch(r"(\d{1,6})(?::(\d{1,6}))?", text)
    fewest, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if match is None or not 1 <= fewest <= most:
        raise ValueError("expected N or MIN:MAX with 1 <= MIN <= MAX, such as 2 or 1:4")
    return fewest, most


def whole(least: int, most: int = 2**31 - 1) -> Parse:
    """Return a parser of whole numbers of at least ``least``."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"\d{1,10}", text) or not least <= int(text) <= most:
            raise ValueError(f"expected a whole number from {least} to {most}")
        return int(text)

    return parse


def processes(text: str) -> int | str:
    """Parse a number of processes, or ``auto``, ``cpu``, ``gpu``."""
    if text in ("auto", "cpu", "gpu"):
        return text
    try:
        return int(whole(1, 1024)(text))
    except ValueError:
        raise ValueError("expected a whole number from 1 to 1024, or auto, cpu or gpu") from None


def seconds(text: str) -> float:
    """Parse a positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (0 < value < math.inf):
        raise ValueError("expected a number of seconds above 0")
    return value


def one_of(*choices: str) -> Parse:
    """Return a parser of one of several words."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return text

    return parse


def truth(text: str) -> bool:
    """Parse a switch's environment variable."""
    if text.lower() not in ("0", "1", "true", "false", ""):
        raise ValueError("expected 1 or 0")
    return text.lower() in ("1", "true")


def streams(text: str) -> dict[int | None, int]:
    """Parse ``N`` or ``RANK:N,...`` where N is 0 none, 1 stdout, 2 stderr, 3 both; None holds for the other ranks."""
    if re.fullmatch(r"[0-3]", text):
        return {None: int(text)}
    found: dict[int | None, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,4}):([0-3])", part.strip())
        if match is None:
            raise ValueError("expected 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or RANK:N,... such as 0:3,1:2")
        found[int(match[1])] = int(match[2])
    return found


def ranks(text: str) -> frozenset[int]:
    """Parse local ranks separated by commas; empty means all."""
    if not re.fullmatch(r"(\d{1,4}(\s*,\s*\d{1,4})*)?", text.strip()):
        raise ValueError("expected local ranks separated by commas, such as 0,2")
    return frozenset(int(part) for part in text.split(",") if part.strip())


def conf(text: str) -> dict[str, str]:
    """Parse ``KEY=VALUE,...``."""
    found = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise ValueError("expected KEY=VALUE,..., such as join_timeout=600")
        found[key.strip()] = value.strip()
    return found


def signals(text: str) -> tuple[signal.Signals, ...]:
    """Parse names of signals separated by commas."""
    found = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        if name not in signal.Signals.__members__ or name in ("SIGKILL", "SIGSTOP", "SIGCHLD"):
            raise ValueError(f"{name} is no signal that can be handled; expected names such as SIGTERM,SIGINT")
        found.append(signal.Signals[name])
    return tuple(dict.fromkeys(found))


def endpoint(text: str) -> str:
    """Parse ``HOST:PORT``; empty means none."""
    host, colon, port = text.rpartition(":")
    if text and (not colon or not host or not port.isdigit() or not 0 < int(port) < 65536):
        raise ValueError("expected HOST:PORT, such as 10.0.0.5:50001")
    return text


def _refused(name: str, default: Any, remedy: str, *, switch: bool = False, parse: Parse = str) -> Flag:
    return Flag(
        name, "Not honoured: refused unless the default", remedy, truth if switch else parse, default,
        switch=switch, unless_default=remedy,
    )  # fmt: skip


def _left_out(
    name: str, default: Any, without: str, *, switch: bool = False, parse: Parse = str, reason: str = "FlagLeftOut"
) -> Flag:
    return Flag(
        name, "Accepted and left out: no result of the training depends on it", without, truth if switch else parse,
        default, switch=switch, without=without, reason=reason,
    )  # fmt: skip


_SIZE = "Size"
_MEETING = "How nodes meet"
_FAULTS = "Faults and stopping"
_SCRIPT = "The script"
_OUTPUT = "Output"
_NODE_CHECK = "this version has no node check"
_SKIPPED = "NodeCheckSkipped"
_NOT_BOUND = "workers aren't bound to NUMA nodes; numactl with --no-python does it"
_BINDINGS = one_of("node", "socket", "exclusive", "core-complex")

FLAGS: tuple[Flag, ...] = (
    Flag(
        "nnodes", _SIZE, "nodes: N, or MIN:MAX for a job that grows and shrinks", nodes, (1, 1), metavar="N|MIN:MAX"
    ),
    Flag("nproc-per-node", _SIZE, "workers a node: a number, gpu, cpu or auto", processes, 1, metavar="N"),
    Flag("node_unit", _SIZE, "the number of nodes is kept a multiple of this", whole(1), 1, metavar="N"),
    Flag("auto_config", _SIZE, "take nnodes from NODE_NUM and a worker for each GPU", truth, False, switch=True),
    Flag("standalone", _MEETING, "this node alone: without a master", truth, False, switch=True),
    Flag(
        "rdzv-backend",
        _MEETING,
        "convoy or dlrover-master: the job's master at --rdzv-endpoint; static, c10d: one node",
        one_of("static", "c10d", "convoy", "dlrover-master"),
        "static",
        metavar="NAME",
    ),
    Flag("rdzv-endpoint", _MEETING, "the master, if not in DLROVER_MASTER_ADDR", endpoint, "", metavar="HOST:PORT"),
    Flag("rdzv-id", _MEETING, "the run's name (TORCHELASTIC_RUN_ID)", str, "none", metavar="ID"),
    Flag(
        "rdzv-conf",
        _MEETING,
        "join_timeout=SECONDS: how long to wait for the others (600)",
        conf,
        {},
        metavar="K=V,...",
    ),
    Flag("node-rank", _MEETING, "rank of this node, if not in NODE_RANK", whole(0), None, metavar="N"),
    Flag("local-addr", _MEETING, "address at which other nodes reach this one", str, None, metavar="HOST"),
    Flag(
        "master-port",
        _MEETING,
        "port of the workers' store, should it be on this node",
        whole(1, 65535),
        None,
        metavar="PORT",
    ),
    Flag(
        "max-restarts",
        _FAULTS,
        "restarts of this node's workers by their own fault (0); under a master the node is replaced after that, up "
        "to the job's restartCount, so 0 doesn't mean one run: restartPolicy Never does",
        whole(0),
        0,
        metavar="N",
    ),
    Flag(
        "shutdown-timeout", _FAULTS, "between SIGTERM and SIGKILL to workers (30)", seconds, None, metavar="SECONDS"
    ),
    Flag(
        "signals-to-handle",
        _FAULTS,
        "signals that stop the workers, then the launcher",
        signals,
        signals("SIGTERM,SIGINT,SIGHUP,SIGQUIT"),
        metavar="SIG,...",
    ),
    Flag("monitor-interval", _FAULTS, "any: an end of a worker is noticed at once", seconds, 0.1, metavar="SECONDS"),
    Flag(
        "start-method",
        _SCRIPT,
        "forkserver or fork: from a process that has imported torch; spawn: fresh ones",
        one_of("spawn", "fork", "forkserver"),
        "forkserver",
        metavar="NAME",
    ),
    Flag("module", _SCRIPT, "run the script as python -m does", truth, False, switch=True, short="-m"),
    Flag("no-python", _SCRIPT, "the script is a program, not Python", truth, False, switch=True),
    Flag("run-path", _SCRIPT, "run an absolute path by runpy, as is done anyway", truth, False, switch=True),
    Flag("role", _SCRIPT, "the workers' role (ROLE_NAME)", str, "default", metavar="NAME"),
    Flag(
        "virtual-local-rank",
        _SCRIPT,
        "LOCAL_RANK is 0 and each worker sees its own GPU only",
        truth,
        False,
        switch=True,
    ),
    Flag("log-dir", _OUTPUT, "directory of the files of --redirects and --tee", str, None, metavar="DIR"),
    Flag(
        "redirects",
        _OUTPUT,
        "streams into files: 0, 1, 2 or 3, or RANK:N,...",
        streams,
        {None: 0},
        short="-r",
        metavar="N",
    ),
    Flag("tee", _OUTPUT, "streams into files and onto the console", streams, {None: 0}, short="-t", metavar="N"),
    Flag(
        "local-ranks-filter",
        _OUTPUT,
        "only these local ranks write to the console",
        ranks,
        frozenset(),
        metavar="N,...",
    ),
    _refused("master-addr", "127.0.0.1", "the first node of the world is the address; leave it out"),
    _refused("event-log-handler", "null", "events go to the job's master; leave it out"),
    _refused("duplicate-stdout-filters", "", "filter the files of --tee 1 --log-dir DIR instead"),
    _refused("duplicate-stderr-filters", "", "filter the files of --tee 2 --log-dir DIR instead"),
    _refused("logs-specs", None, "use --log-dir, --redirects and --tee"),
    _refused("accelerator", "nvidia.com/gpu", "CPUs and NVIDIA GPUs are supported; leave it out"),
    _left_out("precheck", 0, _NODE_CHECK, parse=whole(0, 2), reason=_SKIPPED),
    _left_out("network-check", False, _NODE_CHECK, switch=True, reason=_SKIPPED),
    _left_out("comm-perf-test", False, _NODE_CHECK, switch=True, reason=_SKIPPED),
    _left_out("exclude-straggler", False, _NODE_CHECK, switch=True, reason=_SKIPPED),
    _left_out("auto_tunning", False, "the batch and the loader stay as the script sets them", switch=True),
    _left_out("save_at_breakpoint", False, "checkpoints are on disk as soon as they are made", switch=True),
    _left_out("training_port", 60000, "it is Ascend's; ports are chosen by the kernel", parse=whole(1, 65535)),
    _left_out("numa-binding", None, _NOT_BOUND, parse=_BINDINGS),
    _left_out("numa-affinity", False, _NOT_BOUND, switch=True),
    _left_out("membind-policy", "none", _NOT_BOUND),
    _left_out("ucp_device_type", "cpu", "checkpoints need no conversion"),
)

_DESCRIPTION = "Run a training script on this node, as one of the nodes of a job, and keep it running."
_EXAMPLES = """\
examples:
  %(prog)s --nproc-per-node=2 train.py --epochs 3      two workers on this machine, no master
  %(prog)s --nnodes=1:4 --max-restarts=3 train.py      a node of an elastic job; DLROVER_MASTER_ADDR names its master
  %(prog)s --nnodes=2 --rdzv-backend=convoy --rdzv-endpoint=10.0.0.5:50001 -m my.training

Each flag can also be given as PET_NAME in the environment, such as PET_MAX_RESTARTS=3; a flag goes before it.
CONVOY_PRELOAD=MODULE,... names modules that are imported once for all workers and restarts, beside torch.
The exit status is that of the first worker that failed, 128 + its signal where it was killed, 2 for a wrong flag.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidSetting(f"{message}; see {self.prog} --help")


def parser(program: str) -> argparse.ArgumentParser:
    """Return the command line's parser; values are text, None where absent (see ``resolve``)."""
    made = _Parser(
        prog=program, description=_DESCRIPTION, epilog=_EXAMPLES, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter, usage=f"{program} [flags] SCRIPT [its arguments]",
    )  # fmt: skip
    groups = {name: made.add_argument_group(name) for name in dict.fromkeys(flag.group for flag in FLAGS)}
    for flag in FLAGS:
        group = groups[flag.group]
        if flag.switch:
            group.add_argument(*flag.spellings, dest=flag.dest, action="store_const", const="1", help=flag.help)
        else:
            group.add_argument(*flag.spellings, dest=flag.dest, metavar=flag.metavar or "VALUE", help=flag.help)
    made.add_argument("script", nargs="?", metavar="SCRIPT", help="the training script, or with -m its module")
    made.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="what the script is given")
    return made


def resolve(
    given: Mapping[str, str | None], environment: Mapping[str, str]
) -> tuple[dict[str, Any], tuple[LeftOut, ...]]:
    """Return values by name (of the command line, else ``PET_*``, else its default) and what is left out.

    Raises:
        InvalidSetting: a value is wrong, or is one that Convoy doesn't honour.
    """
    values: dict[str, Any] = {}
    left_out: dict[tuple[str, str], list[str]] = {}
    for flag in FLAGS:
        variable = f"PET_{flag.dest.upper()}"
        text, source = given.get(flag.dest), f"--{flag.name.replace('_', '-')}"
        if text is None and variable in environment:
            text, source = environment[variable], variable
        if text is None:
            values[flag.dest] = flag.default
            continue
        try:
            values[flag.dest] = value = flag.parse(text)
        except ValueError as error:
            raise InvalidSetting(f"{source}={text}: {error}") from None
        if value == flag.default:
            continue
        if flag.unless_default is not None:
            raise InvalidSetting(f"{source}={text} isn't honoured: {flag.unless_default}")
        if flag.without is not None:
            left_out.setdefault((flag.reason, flag.without), []).append(source)
    said = (
        LeftOut(reason, f"{', '.join(sources)}: {without}; going on without it")
        for (reason, without), sources in left_out.items()
    )
    return values, tuple(said)


def parse(
    argv: Sequence[str], environment: Mapping[str, str], program: str
) -> tuple[dict[str, Any], tuple[LeftOut, ...], list[str]]:
    """Return the flags' values, what is left out, and the script with its arguments (empty: no script was named)."""
    found = vars(parser(program).parse_args(list(argv)))
    script, arguments = found.pop("script"), found.pop("arguments")
    return *resolve(found, environment), [] if script is None else [script, *arguments]
