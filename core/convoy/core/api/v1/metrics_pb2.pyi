from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class SpeedSample(_message.Message):
    __slots__ = ("time", "seconds", "first_step", "last_step", "samples", "workers", "ps", "nodes", "batch_size", "accumulation_steps", "round", "warming", "compute_seconds", "grad_sqr", "grad_var", "loader_wait", "loader_workers")
    TIME_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    PS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    ACCUMULATION_STEPS_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    WARMING_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    GRAD_SQR_FIELD_NUMBER: _ClassVar[int]
    GRAD_VAR_FIELD_NUMBER: _ClassVar[int]
    LOADER_WAIT_FIELD_NUMBER: _ClassVar[int]
    LOADER_WORKERS_FIELD_NUMBER: _ClassVar[int]
    time: float
    seconds: float
    first_step: int
    last_step: int
    samples: float
    workers: int
    ps: int
    nodes: int
    batch_size: int
    accumulation_steps: int
    round: int
    warming: bool
    compute_seconds: float
    grad_sqr: float
    grad_var: float
    loader_wait: float
    loader_workers: int
    def __init__(self, time: _Optional[float] = ..., seconds: _Optional[float] = ..., first_step: _Optional[int] = ..., last_step: _Optional[int] = ..., samples: _Optional[float] = ..., workers: _Optional[int] = ..., ps: _Optional[int] = ..., nodes: _Optional[int] = ..., batch_size: _Optional[int] = ..., accumulation_steps: _Optional[int] = ..., round: _Optional[int] = ..., warming: bool = ..., compute_seconds: _Optional[float] = ..., grad_sqr: _Optional[float] = ..., grad_var: _Optional[float] = ..., loader_wait: _Optional[float] = ..., loader_workers: _Optional[int] = ...) -> None: ...

class NodeLoad(_message.Message):
    __slots__ = ("time", "seconds", "node", "role", "rank", "cpu_cores", "memory_bytes", "cpu_allotted", "memory_allotted", "round")
    TIME_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    CPU_CORES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    CPU_ALLOTTED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_ALLOTTED_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    time: float
    seconds: float
    node: str
    role: str
    rank: int
    cpu_cores: float
    memory_bytes: int
    cpu_allotted: float
    memory_allotted: int
    round: int
    def __init__(self, time: _Optional[float] = ..., seconds: _Optional[float] = ..., node: _Optional[str] = ..., role: _Optional[str] = ..., rank: _Optional[int] = ..., cpu_cores: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., cpu_allotted: _Optional[float] = ..., memory_allotted: _Optional[int] = ..., round: _Optional[int] = ...) -> None: ...

class JobEvent(_message.Message):
    __slots__ = ("time", "reason", "node", "message", "round", "step", "evidence")
    class EvidenceEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TIME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    time: float
    reason: str
    node: str
    message: str
    round: int
    step: int
    evidence: _containers.ScalarMap[str, str]
    def __init__(self, time: _Optional[float] = ..., reason: _Optional[str] = ..., node: _Optional[str] = ..., message: _Optional[str] = ..., round: _Optional[int] = ..., step: _Optional[int] = ..., evidence: _Optional[_Mapping[str, str]] = ...) -> None: ...
