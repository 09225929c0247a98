from convoy.core.api.v1 import metrics_pb2 as _metrics_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BrainReport(_message.Message):
    __slots__ = ("job", "speed", "load", "events", "plans")
    JOB_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    PLANS_FIELD_NUMBER: _ClassVar[int]
    job: JobDescription
    speed: _containers.RepeatedCompositeFieldContainer[_metrics_pb2.SpeedSample]
    load: _containers.RepeatedCompositeFieldContainer[_metrics_pb2.NodeLoad]
    events: _containers.RepeatedCompositeFieldContainer[_metrics_pb2.JobEvent]
    plans: _containers.RepeatedCompositeFieldContainer[PlanOutcome]
    def __init__(self, job: _Optional[_Union[JobDescription, _Mapping]] = ..., speed: _Optional[_Iterable[_Union[_metrics_pb2.SpeedSample, _Mapping]]] = ..., load: _Optional[_Iterable[_Union[_metrics_pb2.NodeLoad, _Mapping]]] = ..., events: _Optional[_Iterable[_Union[_metrics_pb2.JobEvent, _Mapping]]] = ..., plans: _Optional[_Iterable[_Union[PlanOutcome, _Mapping]]] = ...) -> None: ...

class BrainAck(_message.Message):
    __slots__ = ("stored", "refused")
    STORED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    stored: int
    refused: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, stored: _Optional[int] = ..., refused: _Optional[_Iterable[str]] = ...) -> None: ...

class JobDescription(_message.Message):
    __slots__ = ("uid", "name", "namespace", "template", "image", "user", "strategy", "state", "cluster", "node_type", "model", "features", "mode", "optimize_mode", "dataset")
    class FeaturesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    UID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NODE_TYPE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZE_MODE_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    uid: str
    name: str
    namespace: str
    template: str
    image: str
    user: str
    strategy: str
    state: str
    cluster: str
    node_type: str
    model: str
    features: _containers.ScalarMap[str, float]
    mode: str
    optimize_mode: str
    dataset: str
    def __init__(self, uid: _Optional[str] = ..., name: _Optional[str] = ..., namespace: _Optional[str] = ..., template: _Optional[str] = ..., image: _Optional[str] = ..., user: _Optional[str] = ..., strategy: _Optional[str] = ..., state: _Optional[str] = ..., cluster: _Optional[str] = ..., node_type: _Optional[str] = ..., model: _Optional[str] = ..., features: _Optional[_Mapping[str, float]] = ..., mode: _Optional[str] = ..., optimize_mode: _Optional[str] = ..., dataset: _Optional[str] = ...) -> None: ...

class PlanOutcome(_message.Message):
    __slots__ = ("plan", "recommendation", "created", "carried_out", "workers_before", "workers_after", "predicted", "predicted_lower", "predicted_upper", "realized", "realized_seconds", "restart_seconds", "reason", "message", "rolled_back")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    RECOMMENDATION_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    CARRIED_OUT_FIELD_NUMBER: _ClassVar[int]
    WORKERS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    WORKERS_AFTER_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_LOWER_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_UPPER_FIELD_NUMBER: _ClassVar[int]
    REALIZED_FIELD_NUMBER: _ClassVar[int]
    REALIZED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RESTART_SECONDS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ROLLED_BACK_FIELD_NUMBER: _ClassVar[int]
    plan: str
    recommendation: str
    created: float
    carried_out: float
    workers_before: int
    workers_after: int
    predicted: float
    predicted_lower: float
    predicted_upper: float
    realized: float
    realized_seconds: float
    restart_seconds: float
    reason: str
    message: str
    rolled_back: bool
    def __init__(self, plan: _Optional[str] = ..., recommendation: _Optional[str] = ..., created: _Optional[float] = ..., carried_out: _Optional[float] = ..., workers_before: _Optional[int] = ..., workers_after: _Optional[int] = ..., predicted: _Optional[float] = ..., predicted_lower: _Optional[float] = ..., predicted_upper: _Optional[float] = ..., realized: _Optional[float] = ..., realized_seconds: _Optional[float] = ..., restart_seconds: _Optional[float] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., rolled_back: bool = ...) -> None: ...

class OptimizeRequest(_message.Message):
    __slots__ = ("job", "stage", "current", "limits", "horizon_seconds", "restart_seconds", "objective", "deadline", "remaining_samples", "pinned", "frozen_until", "adjustable")
    class Stage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[OptimizeRequest.Stage]
        START: _ClassVar[OptimizeRequest.Stage]
        RUNNING: _ClassVar[OptimizeRequest.Stage]
    UNSPECIFIED: OptimizeRequest.Stage
    START: OptimizeRequest.Stage
    RUNNING: OptimizeRequest.Stage
    JOB_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    HORIZON_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RESTART_SECONDS_FIELD_NUMBER: _ClassVar[int]
    OBJECTIVE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    REMAINING_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    FROZEN_UNTIL_FIELD_NUMBER: _ClassVar[int]
    ADJUSTABLE_FIELD_NUMBER: _ClassVar[int]
    job: JobDescription
    stage: OptimizeRequest.Stage
    current: Allotment
    limits: Limits
    horizon_seconds: float
    restart_seconds: float
    objective: str
    deadline: float
    remaining_samples: float
    pinned: bool
    frozen_until: float
    adjustable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job: _Optional[_Union[JobDescription, _Mapping]] = ..., stage: _Optional[_Union[OptimizeRequest.Stage, str]] = ..., current: _Optional[_Union[Allotment, _Mapping]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., horizon_seconds: _Optional[float] = ..., restart_seconds: _Optional[float] = ..., objective: _Optional[str] = ..., deadline: _Optional[float] = ..., remaining_samples: _Optional[float] = ..., pinned: bool = ..., frozen_until: _Optional[float] = ..., adjustable: _Optional[_Iterable[str]] = ...) -> None: ...

class Allotment(_message.Message):
    __slots__ = ("workers", "ps", "worker_cpu", "worker_memory", "ps_cpu", "ps_memory", "worker_accelerators", "batch")
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    PS_FIELD_NUMBER: _ClassVar[int]
    WORKER_CPU_FIELD_NUMBER: _ClassVar[int]
    WORKER_MEMORY_FIELD_NUMBER: _ClassVar[int]
    PS_CPU_FIELD_NUMBER: _ClassVar[int]
    PS_MEMORY_FIELD_NUMBER: _ClassVar[int]
    WORKER_ACCELERATORS_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    workers: int
    ps: int
    worker_cpu: float
    worker_memory: int
    ps_cpu: float
    ps_memory: int
    worker_accelerators: float
    batch: int
    def __init__(self, workers: _Optional[int] = ..., ps: _Optional[int] = ..., worker_cpu: _Optional[float] = ..., worker_memory: _Optional[int] = ..., ps_cpu: _Optional[float] = ..., ps_memory: _Optional[int] = ..., worker_accelerators: _Optional[float] = ..., batch: _Optional[int] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("min_workers", "max_workers", "node_unit", "free_cpu", "free_memory", "largest_node_cpu", "largest_node_memory", "global_batch", "allowed_workers", "min_ps", "max_ps", "free_accelerators", "quota_cpu", "quota_memory", "quota_accelerators", "max_batch")
    MIN_WORKERS_FIELD_NUMBER: _ClassVar[int]
    MAX_WORKERS_FIELD_NUMBER: _ClassVar[int]
    NODE_UNIT_FIELD_NUMBER: _ClassVar[int]
    FREE_CPU_FIELD_NUMBER: _ClassVar[int]
    FREE_MEMORY_FIELD_NUMBER: _ClassVar[int]
    LARGEST_NODE_CPU_FIELD_NUMBER: _ClassVar[int]
    LARGEST_NODE_MEMORY_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_BATCH_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_WORKERS_FIELD_NUMBER: _ClassVar[int]
    MIN_PS_FIELD_NUMBER: _ClassVar[int]
    MAX_PS_FIELD_NUMBER: _ClassVar[int]
    FREE_ACCELERATORS_FIELD_NUMBER: _ClassVar[int]
    QUOTA_CPU_FIELD_NUMBER: _ClassVar[int]
    QUOTA_MEMORY_FIELD_NUMBER: _ClassVar[int]
    QUOTA_ACCELERATORS_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_FIELD_NUMBER: _ClassVar[int]
    min_workers: int
    max_workers: int
    node_unit: int
    free_cpu: float
    free_memory: int
    largest_node_cpu: float
    largest_node_memory: int
    global_batch: int
    allowed_workers: _containers.RepeatedScalarFieldContainer[int]
    min_ps: int
    max_ps: int
    free_accelerators: float
    quota_cpu: float
    quota_memory: int
    quota_accelerators: float
    max_batch: int
    def __init__(self, min_workers: _Optional[int] = ..., max_workers: _Optional[int] = ..., node_unit: _Optional[int] = ..., free_cpu: _Optional[float] = ..., free_memory: _Optional[int] = ..., largest_node_cpu: _Optional[float] = ..., largest_node_memory: _Optional[int] = ..., global_batch: _Optional[int] = ..., allowed_workers: _Optional[_Iterable[int]] = ..., min_ps: _Optional[int] = ..., max_ps: _Optional[int] = ..., free_accelerators: _Optional[float] = ..., quota_cpu: _Optional[float] = ..., quota_memory: _Optional[int] = ..., quota_accelerators: _Optional[float] = ..., max_batch: _Optional[int] = ...) -> None: ...

class Recommendation(_message.Message):
    __slots__ = ("id", "decision", "reason", "message", "target", "predicted", "lower90", "upper90", "lower99", "upper99", "price_per_hour", "currency", "options", "observations", "history_jobs", "objective", "roles", "notes", "loaders")
    class Decision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNDEFINED: _ClassVar[Recommendation.Decision]
        KEEP: _ClassVar[Recommendation.Decision]
        CHANGE: _ClassVar[Recommendation.Decision]
        EXPLORE: _ClassVar[Recommendation.Decision]
    UNDEFINED: Recommendation.Decision
    KEEP: Recommendation.Decision
    CHANGE: Recommendation.Decision
    EXPLORE: Recommendation.Decision
    ID_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_FIELD_NUMBER: _ClassVar[int]
    LOWER90_FIELD_NUMBER: _ClassVar[int]
    UPPER90_FIELD_NUMBER: _ClassVar[int]
    LOWER99_FIELD_NUMBER: _ClassVar[int]
    UPPER99_FIELD_NUMBER: _ClassVar[int]
    PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    CURRENCY_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    HISTORY_JOBS_FIELD_NUMBER: _ClassVar[int]
    OBJECTIVE_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    LOADERS_FIELD_NUMBER: _ClassVar[int]
    id: str
    decision: Recommendation.Decision
    reason: str
    message: str
    target: Allotment
    predicted: float
    lower90: float
    upper90: float
    lower99: float
    upper99: float
    price_per_hour: float
    currency: str
    options: _containers.RepeatedCompositeFieldContainer[Option]
    observations: int
    history_jobs: int
    objective: str
    roles: _containers.RepeatedCompositeFieldContainer[Role]
    notes: _containers.RepeatedScalarFieldContainer[str]
    loaders: Loaders
    def __init__(self, id: _Optional[str] = ..., decision: _Optional[_Union[Recommendation.Decision, str]] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., target: _Optional[_Union[Allotment, _Mapping]] = ..., predicted: _Optional[float] = ..., lower90: _Optional[float] = ..., upper90: _Optional[float] = ..., lower99: _Optional[float] = ..., upper99: _Optional[float] = ..., price_per_hour: _Optional[float] = ..., currency: _Optional[str] = ..., options: _Optional[_Iterable[_Union[Option, _Mapping]]] = ..., observations: _Optional[int] = ..., history_jobs: _Optional[int] = ..., objective: _Optional[str] = ..., roles: _Optional[_Iterable[_Union[Role, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ..., loaders: _Optional[_Union[Loaders, _Mapping]] = ...) -> None: ...

class Loaders(_message.Message):
    __slots__ = ("before", "workers", "wait", "step", "expected", "reason", "message", "decided")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DECIDED_FIELD_NUMBER: _ClassVar[int]
    before: int
    workers: int
    wait: float
    step: float
    expected: float
    reason: str
    message: str
    decided: bool
    def __init__(self, before: _Optional[int] = ..., workers: _Optional[int] = ..., wait: _Optional[float] = ..., step: _Optional[float] = ..., expected: _Optional[float] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., decided: bool = ...) -> None: ...

class Role(_message.Message):
    __slots__ = ("role", "replicas_before", "replicas", "cpu_before", "cpu", "cpu_used", "memory_before", "memory", "memory_used", "reason", "message", "decided")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    CPU_BEFORE_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    CPU_USED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BEFORE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DECIDED_FIELD_NUMBER: _ClassVar[int]
    role: str
    replicas_before: int
    replicas: int
    cpu_before: float
    cpu: float
    cpu_used: float
    memory_before: int
    memory: int
    memory_used: float
    reason: str
    message: str
    decided: bool
    def __init__(self, role: _Optional[str] = ..., replicas_before: _Optional[int] = ..., replicas: _Optional[int] = ..., cpu_before: _Optional[float] = ..., cpu: _Optional[float] = ..., cpu_used: _Optional[float] = ..., memory_before: _Optional[int] = ..., memory: _Optional[int] = ..., memory_used: _Optional[float] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., decided: bool = ...) -> None: ...

class Option(_message.Message):
    __slots__ = ("workers", "predicted", "lower90", "upper90", "lower99", "upper99", "price_per_hour", "price_per_million_samples", "verdict", "ps", "worker_cpu", "ps_cpu", "batch", "gain", "paid_back", "in_time")
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_FIELD_NUMBER: _ClassVar[int]
    LOWER90_FIELD_NUMBER: _ClassVar[int]
    UPPER90_FIELD_NUMBER: _ClassVar[int]
    LOWER99_FIELD_NUMBER: _ClassVar[int]
    UPPER99_FIELD_NUMBER: _ClassVar[int]
    PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    PRICE_PER_MILLION_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    PS_FIELD_NUMBER: _ClassVar[int]
    WORKER_CPU_FIELD_NUMBER: _ClassVar[int]
    PS_CPU_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    GAIN_FIELD_NUMBER: _ClassVar[int]
    PAID_BACK_FIELD_NUMBER: _ClassVar[int]
    IN_TIME_FIELD_NUMBER: _ClassVar[int]
    workers: int
    predicted: float
    lower90: float
    upper90: float
    lower99: float
    upper99: float
    price_per_hour: float
    price_per_million_samples: float
    verdict: str
    ps: int
    worker_cpu: float
    ps_cpu: float
    batch: int
    gain: float
    paid_back: float
    in_time: float
    def __init__(self, workers: _Optional[int] = ..., predicted: _Optional[float] = ..., lower90: _Optional[float] = ..., upper90: _Optional[float] = ..., lower99: _Optional[float] = ..., upper99: _Optional[float] = ..., price_per_hour: _Optional[float] = ..., price_per_million_samples: _Optional[float] = ..., verdict: _Optional[str] = ..., ps: _Optional[int] = ..., worker_cpu: _Optional[float] = ..., ps_cpu: _Optional[float] = ..., batch: _Optional[int] = ..., gain: _Optional[float] = ..., paid_back: _Optional[float] = ..., in_time: _Optional[float] = ...) -> None: ...
