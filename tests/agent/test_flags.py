"""Flags of torchrun and of dlrover-run are known and checked; what isn't honoured is refused, or left out aloud."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.agent import flags, options
from convoy.core.api.errors import InvalidSetting
from support.launches import launch

DLROVER = (
    "--precheck", "--node_unit", "--auto_config", "--auto_tunning", "--exclude-straggler", "--save_at_breakpoint",
    "--accelerator", "--training_port", "--numa-affinity", "--membind-policy", "--network-check", "--comm-perf-test",
    "--ucp_device_type",
)  # fmt: skip


def load(*argv: str, env: dict[str, str] | None = None) -> options.Options:
    return options.load([*argv, __file__], env or {}, "convoy run")


def test_every_spelling_of_torchrun_and_dlrover_is_known() -> None:
    from torch.distributed.run import get_args_parser

    theirs = {text for action in get_args_parser()._actions for text in action.option_strings}
    ours = {text for action in flags.parser("x")._actions for text in action.option_strings}
    assert theirs - ours == set()
    assert set(DLROVER) - ours == set()
    assert {name.replace("-", "_").replace("__", "--", 1) for name in DLROVER} - ours == set()


def test_a_flag_goes_before_the_environment_and_that_before_the_default() -> None:
    env = {"PET_MAX_RESTARTS": "5", "PET_NPROC_PER_NODE": "3", "PET_STANDALONE": "1"}
    assert load(env=env).max_restarts == 5
    assert load("--max-restarts=2", env=env).max_restarts == 2
    assert load("--max_restarts", "2", env=env).processes == 3
    assert load().max_restarts == 0


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--nnodes=abc"], "--nnodes=abc: expected N or MIN:MAX"),
        (["--nnodes=2:1"], "--nnodes=2:1: expected N or MIN:MAX"),
        (["--nproc-per-node=0"], "--nproc-per-node=0: expected a whole number from 1"),
        (["--nproc_per_node", "many"], "--nproc-per-node=many"),
        (["--max-restarts=-1"], "--max-restarts=-1"),
        (["--rdzv-endpoint=nowhere"], "expected HOST:PORT"),
        (["--rdzv-conf=join_timeout"], "expected KEY=VALUE"),
        (["--rdzv-conf=join_timeout=soon"], "join_timeout=soon: expected a number of seconds"),
        (["--rdzv-conf=last_call=3"], "last_call=3 isn't honoured"),
        (["--redirects=9"], "--redirects=9: expected 0 (none)"),
        (["--tee=1"], "--log-dir=DIR"),
        (["--signals-to-handle=SIGKILL"], "SIGKILL is no signal that can be handled"),
        (["--monitor-interval=0"], "--monitor-interval=0"),
        (["--start-method=thread"], "expected one of spawn, fork, forkserver"),
        (["--nnodes=2"], "no master is known"),
        (["--nnodes=2", "--standalone"], "one node alone"),
        (["--rdzv-backend=convoy"], "needs the master's address"),
        (["-m", "--no-python"], "exclude each other"),
        (["--wibble"], "--wibble"),
    ],
)  # fmt: skip
def test_what_cant_be_right_is_named(argv: list[str], named: str) -> None:
    with pytest.raises(InvalidSetting) as refusal:
        load(*argv)
    assert named in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("flag", [flag for flag in flags.FLAGS if flag.unless_default], ids=lambda flag: flag.name)
def test_what_isnt_honoured_is_refused_unless_it_is_the_default(flag: flags.Flag) -> None:
    spelled = f"--{flag.name.replace('_', '-')}"
    other = "1" if flag.parse is not str else "other"
    argv = [spelled] if flag.switch else [f"{spelled}={other}"]
    with pytest.raises(InvalidSetting) as refusal:
        load(*argv)
    assert spelled in str(refusal.value)
    assert str(flag.unless_default) in str(refusal.value)
    if flag.default is not None and not flag.switch:
        load(f"{spelled}={flag.default}")


@pytest.mark.parametrize("flag", [flag for flag in flags.FLAGS if flag.without], ids=lambda flag: flag.name)
def test_what_changes_no_result_is_accepted_and_said_to_be_left_out(flag: flags.Flag) -> None:
    other = "1" if flag.parse is not str else "other"
    other = {"numa_binding": "node", "training_port": "61000"}.get(flag.dest, other)
    for spelled in flag.spellings:
        (said,) = load(*([spelled] if flag.switch else [f"{spelled}={other}"])).left_out
        assert said == flags.LeftOut(
            flag.reason, f"--{flag.name.replace('_', '-')}: {flag.without}; going on without it"
        )
    variable = f"PET_{flag.dest.upper()}"
    (said,) = load(env={variable: other}).left_out
    assert said.message.startswith(f"{variable}: ")
    if flag.default is not None:
        assert load(env={variable: "0" if flag.switch else str(flag.default)}).left_out == ()


def test_the_node_check_is_said_to_be_skipped_once_whatever_asked_for_it() -> None:
    (said,) = load("--network-check", "--exclude-straggler", env={"PET_PRECHECK": "2"}).left_out
    assert said.reason == "NodeCheckSkipped"
    assert said.message == (
        "PET_PRECHECK, --network-check, --exclude-straggler: this version has no node check; going on without it"
    )
    with pytest.raises(InvalidSetting, match="--precheck=3"):
        load("--precheck=3")


def test_a_command_line_with_a_node_check_runs_its_script() -> None:
    ended = launch("--network-check", "--no-python", "true")
    assert ended.status == 0
    said = [line for line in ended.err.splitlines() if "node check" in line]
    assert said == ["convoy-run: --network-check: this version has no node check; going on without it"]


def test_a_wrong_environment_variable_is_named_as_such() -> None:
    with pytest.raises(InvalidSetting, match=r"^PET_NNODES=abc"):
        load(env={"PET_NNODES": "abc"})
    with pytest.raises(InvalidSetting, match=r"^NODE_RANK=x"):
        load(env={"NODE_RANK": "x"})
    with pytest.raises(InvalidSetting, match=r"^DLROVER_MASTER_ADDR=here"):
        load(env={"DLROVER_MASTER_ADDR": "here"})


def test_the_pods_environment_places_the_node() -> None:
    env = {"DLROVER_MASTER_ADDR": "10.0.0.5:50001", "NODE_RANK": "2", "NODE_ID": "7", "ELASTIC_JOB_NAME": "digits"}
    found = load("--nnodes=1:4", env=env)
    assert (found.master, found.node_rank, found.node_id, found.run_id) == ("10.0.0.5:50001", 2, 7, "digits")
    assert load("--standalone", env=env).master is None
    assert load("--auto_config", env=env | {"NODE_NUM": "3"}).max_nodes == 3


@given(st.text(max_size=12))
def test_any_text_for_nodes_is_parsed_or_refused(text: str) -> None:
    try:
        fewest, most = flags.nodes(text)
    except ValueError as error:
        assert "expected" in str(error)  # noqa: PT017
    else:
        assert 1 <= fewest <= most


def test_a_wrong_flag_is_told_at_once() -> None:
    ended = min((launch("--nnodes=abc", __file__) for _ in range(3)), key=lambda one: one.seconds)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == ("convoy-run: --nnodes=abc: expected N or MIN:MAX with 1 <= MIN <= MAX, such as 2 or 1:4\n")
    assert ended.seconds < 0.5


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ([], "no script given"),
        (["absent.py"], "script absent.py: no such file"),
        (["-m", "absent_module"], "module absent_module"),
        (["--no-python", "absent-program"], "program absent-program"),
    ],
)
def test_a_missing_script_is_named(argv: list[str], named: str) -> None:
    ended = launch(*argv)
    assert ended.status == 2
    assert named in ended.err
    assert len(ended.err.splitlines()) == 1


def test_help_teaches() -> None:
    ended = launch("--help")
    assert ended.status == 0
    for word in ("Size:", "Faults and stopping:", "examples:", "--nproc_per_node", "DLROVER_MASTER_ADDR", "PET_"):
        assert word in ended.out
