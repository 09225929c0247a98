from convoy.core.api.v1 import metrics_pb2 as _metrics_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RegisterRequest(_message.Message):
    __slots__ = ("role", "rank", "node_id", "host", "min_nodes", "max_nodes", "node_unit", "processes", "max_restarts", "round", "step")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    MIN_NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    NODE_UNIT_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    MAX_RESTARTS_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    role: str
    rank: int
    node_id: int
    host: str
    min_nodes: int
    max_nodes: int
    node_unit: int
    processes: int
    max_restarts: int
    round: int
    step: int
    def __init__(self, role: _Optional[str] = ..., rank: _Optional[int] = ..., node_id: _Optional[int] = ..., host: _Optional[str] = ..., min_nodes: _Optional[int] = ..., max_nodes: _Optional[int] = ..., node_unit: _Optional[int] = ..., processes: _Optional[int] = ..., max_restarts: _Optional[int] = ..., round: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class RegisterResponse(_message.Message):
    __slots__ = ("epoch", "heartbeat_seconds")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    heartbeat_seconds: float
    def __init__(self, epoch: _Optional[int] = ..., heartbeat_seconds: _Optional[float] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("rank", "local_world_size", "host", "store_port", "timeout_seconds", "last_round")
    RANK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    STORE_PORT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LAST_ROUND_FIELD_NUMBER: _ClassVar[int]
    rank: int
    local_world_size: int
    host: str
    store_port: int
    timeout_seconds: float
    last_round: int
    def __init__(self, rank: _Optional[int] = ..., local_world_size: _Optional[int] = ..., host: _Optional[str] = ..., store_port: _Optional[int] = ..., timeout_seconds: _Optional[float] = ..., last_round: _Optional[int] = ...) -> None: ...

class JoinResponse(_message.Message):
    __slots__ = ("round", "members")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    round: int
    members: _containers.RepeatedCompositeFieldContainer[Member]
    def __init__(self, round: _Optional[int] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("node_rank", "local_world_size", "first_process_rank", "host", "store_port")
    NODE_RANK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    FIRST_PROCESS_RANK_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    STORE_PORT_FIELD_NUMBER: _ClassVar[int]
    node_rank: int
    local_world_size: int
    first_process_rank: int
    host: str
    store_port: int
    def __init__(self, node_rank: _Optional[int] = ..., local_world_size: _Optional[int] = ..., first_process_rank: _Optional[int] = ..., host: _Optional[str] = ..., store_port: _Optional[int] = ...) -> None: ...

class DirectivesRequest(_message.Message):
    __slots__ = ("rank",)
    RANK_FIELD_NUMBER: _ClassVar[int]
    rank: int
    def __init__(self, rank: _Optional[int] = ...) -> None: ...

class Directive(_message.Message):
    __slots__ = ("version", "action", "round", "reason", "message", "exit_code", "loader_workers")
    class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[Directive.Action]
        TRAIN: _ClassVar[Directive.Action]
        YIELD: _ClassVar[Directive.Action]
        ABORT: _ClassVar[Directive.Action]
        STOP: _ClassVar[Directive.Action]
    UNSPECIFIED: Directive.Action
    TRAIN: Directive.Action
    YIELD: Directive.Action
    ABORT: Directive.Action
    STOP: Directive.Action
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    LOADER_WORKERS_FIELD_NUMBER: _ClassVar[int]
    version: int
    action: Directive.Action
    round: int
    reason: str
    message: str
    exit_code: int
    loader_workers: int
    def __init__(self, version: _Optional[int] = ..., action: _Optional[_Union[Directive.Action, str]] = ..., round: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., exit_code: _Optional[int] = ..., loader_workers: _Optional[int] = ...) -> None: ...

class WorkerGroup(_message.Message):
    __slots__ = ("round", "state", "pids", "step", "restarts", "failure")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[WorkerGroup.State]
        IDLE: _ClassVar[WorkerGroup.State]
        RUNNING: _ClassVar[WorkerGroup.State]
        YIELDED: _ClassVar[WorkerGroup.State]
        FAILED: _ClassVar[WorkerGroup.State]
        SUCCEEDED: _ClassVar[WorkerGroup.State]
    UNSPECIFIED: WorkerGroup.State
    IDLE: WorkerGroup.State
    RUNNING: WorkerGroup.State
    YIELDED: WorkerGroup.State
    FAILED: WorkerGroup.State
    SUCCEEDED: WorkerGroup.State
    ROUND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PIDS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    round: int
    state: WorkerGroup.State
    pids: _containers.RepeatedScalarFieldContainer[int]
    step: int
    restarts: int
    failure: Failure
    def __init__(self, round: _Optional[int] = ..., state: _Optional[_Union[WorkerGroup.State, str]] = ..., pids: _Optional[_Iterable[int]] = ..., step: _Optional[int] = ..., restarts: _Optional[int] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("local_rank", "exit_code", "peer_lost", "message")
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    PEER_LOST_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    local_rank: int
    exit_code: int
    peer_lost: bool
    message: str
    def __init__(self, local_rank: _Optional[int] = ..., exit_code: _Optional[int] = ..., peer_lost: bool = ..., message: _Optional[str] = ...) -> None: ...

class NodeReport(_message.Message):
    __slots__ = ("workers", "load", "speed", "events")
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    workers: WorkerGroup
    load: _metrics_pb2.NodeLoad
    speed: _containers.RepeatedCompositeFieldContainer[_metrics_pb2.SpeedSample]
    events: _containers.RepeatedCompositeFieldContainer[_metrics_pb2.JobEvent]
    def __init__(self, workers: _Optional[_Union[WorkerGroup, _Mapping]] = ..., load: _Optional[_Union[_metrics_pb2.NodeLoad, _Mapping]] = ..., speed: _Optional[_Iterable[_Union[_metrics_pb2.SpeedSample, _Mapping]]] = ..., events: _Optional[_Iterable[_Union[_metrics_pb2.JobEvent, _Mapping]]] = ...) -> None: ...

class ReportAck(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class KeyValue(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: bytes
    def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class KeyRequest(_message.Message):
    __slots__ = ("key", "timeout_seconds")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    key: str
    timeout_seconds: float
    def __init__(self, key: _Optional[str] = ..., timeout_seconds: _Optional[float] = ...) -> None: ...

class AddRequest(_message.Message):
    __slots__ = ("key", "amount")
    KEY_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    key: str
    amount: int
    def __init__(self, key: _Optional[str] = ..., amount: _Optional[int] = ...) -> None: ...

class AddResponse(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: int
    def __init__(self, value: _Optional[int] = ...) -> None: ...

class Dataset(_message.Message):
    __slots__ = ("name", "size", "shard_size", "epochs", "shuffle", "seed")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHARD_SIZE_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    name: str
    size: int
    shard_size: int
    epochs: int
    shuffle: bool
    seed: int
    def __init__(self, name: _Optional[str] = ..., size: _Optional[int] = ..., shard_size: _Optional[int] = ..., epochs: _Optional[int] = ..., shuffle: bool = ..., seed: _Optional[int] = ...) -> None: ...

class ShardRequest(_message.Message):
    __slots__ = ("dataset", "timeout_seconds")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    timeout_seconds: float
    def __init__(self, dataset: _Optional[str] = ..., timeout_seconds: _Optional[float] = ...) -> None: ...

class Shard(_message.Message):
    __slots__ = ("dataset", "id", "epoch", "start", "end")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    id: int
    epoch: int
    start: int
    end: int
    def __init__(self, dataset: _Optional[str] = ..., id: _Optional[int] = ..., epoch: _Optional[int] = ..., start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class ShardDone(_message.Message):
    __slots__ = ("dataset", "id", "failed")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    id: int
    failed: bool
    def __init__(self, dataset: _Optional[str] = ..., id: _Optional[int] = ..., failed: bool = ...) -> None: ...

class LedgerRequest(_message.Message):
    __slots__ = ("dataset",)
    DATASET_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    def __init__(self, dataset: _Optional[str] = ...) -> None: ...

class Ledger(_message.Message):
    __slots__ = ("dataset", "json")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    json: str
    def __init__(self, dataset: _Optional[str] = ..., json: _Optional[str] = ...) -> None: ...
