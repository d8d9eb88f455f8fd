from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Scenario(_message.Message):
    __slots__ = ("cluster", "model", "batch", "deployment", "precision", "optimizer", "attention", "gradient_dtype", "loss", "launch", "framework", "fragmentation", "contention", "context_parallel", "expert_load", "capacity_factor")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    DEPLOYMENT_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_DTYPE_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTATION_FIELD_NUMBER: _ClassVar[int]
    CONTENTION_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    EXPERT_LOAD_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    cluster: ClusterSpec
    model: ModelSpec
    batch: int
    deployment: DeploymentPlan
    precision: str
    optimizer: str
    attention: str
    gradient_dtype: str
    loss: str
    launch: str
    framework: str
    fragmentation: float
    contention: float
    context_parallel: str
    expert_load: _containers.RepeatedScalarFieldContainer[float]
    capacity_factor: float
    def __init__(self, cluster: _Optional[_Union[ClusterSpec, _Mapping]] = ..., model: _Optional[_Union[ModelSpec, _Mapping]] = ..., batch: _Optional[int] = ..., deployment: _Optional[_Union[DeploymentPlan, _Mapping]] = ..., precision: _Optional[str] = ..., optimizer: _Optional[str] = ..., attention: _Optional[str] = ..., gradient_dtype: _Optional[str] = ..., loss: _Optional[str] = ..., launch: _Optional[str] = ..., framework: _Optional[str] = ..., fragmentation: _Optional[float] = ..., contention: _Optional[float] = ..., context_parallel: _Optional[str] = ..., expert_load: _Optional[_Iterable[float]] = ..., capacity_factor: _Optional[float] = ...) -> None: ...

class ClusterSpec(_message.Message):
    __slots__ = ("name", "hosts", "scale_out")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    SCALE_OUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    hosts: _containers.RepeatedCompositeFieldContainer[HostSpec]
    scale_out: ScaleOutSpec
    def __init__(self, name: _Optional[str] = ..., hosts: _Optional[_Iterable[_Union[HostSpec, _Mapping]]] = ..., scale_out: _Optional[_Union[ScaleOutSpec, _Mapping]] = ...) -> None: ...

class HostSpec(_message.Message):
    __slots__ = ("devices", "nic", "scale_up", "count", "domains", "pcie_tree")
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    NIC_FIELD_NUMBER: _ClassVar[int]
    SCALE_UP_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    PCIE_TREE_FIELD_NUMBER: _ClassVar[int]
    devices: _containers.RepeatedCompositeFieldContainer[DeviceSlot]
    nic: NicSpec
    scale_up: str
    count: int
    domains: _containers.RepeatedCompositeFieldContainer[DomainSpec]
    pcie_tree: _containers.RepeatedCompositeFieldContainer[PcieLevel]
    def __init__(self, devices: _Optional[_Iterable[_Union[DeviceSlot, _Mapping]]] = ..., nic: _Optional[_Union[NicSpec, _Mapping]] = ..., scale_up: _Optional[str] = ..., count: _Optional[int] = ..., domains: _Optional[_Iterable[_Union[DomainSpec, _Mapping]]] = ..., pcie_tree: _Optional[_Iterable[_Union[PcieLevel, _Mapping]]] = ...) -> None: ...

class DomainSpec(_message.Message):
    __slots__ = ("name", "scale_up")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCALE_UP_FIELD_NUMBER: _ClassVar[int]
    name: str
    scale_up: str
    def __init__(self, name: _Optional[str] = ..., scale_up: _Optional[str] = ...) -> None: ...

class PcieLevel(_message.Message):
    __slots__ = ("devices", "uplink")
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    UPLINK_FIELD_NUMBER: _ClassVar[int]
    devices: int
    uplink: LinkSpec
    def __init__(self, devices: _Optional[int] = ..., uplink: _Optional[_Union[LinkSpec, _Mapping]] = ...) -> None: ...

class DeviceSlot(_message.Message):
    __slots__ = ("device", "count", "domain", "pcie", "scale_up", "rate")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    PCIE_FIELD_NUMBER: _ClassVar[int]
    SCALE_UP_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    device: DeviceSpec
    count: int
    domain: str
    pcie: LinkSpec
    scale_up: LinkSpec
    rate: str
    def __init__(self, device: _Optional[_Union[DeviceSpec, _Mapping]] = ..., count: _Optional[int] = ..., domain: _Optional[str] = ..., pcie: _Optional[_Union[LinkSpec, _Mapping]] = ..., scale_up: _Optional[_Union[LinkSpec, _Mapping]] = ..., rate: _Optional[str] = ...) -> None: ...

class DeviceSpec(_message.Message):
    __slots__ = ("name", "peak", "memory", "memory_bandwidth", "pcie", "efficiency", "power", "idle_power", "price_usd", "price_usd_per_hour", "scale_up", "rate", "library", "speed")
    class PeakEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PEAK_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BANDWIDTH_FIELD_NUMBER: _ClassVar[int]
    PCIE_FIELD_NUMBER: _ClassVar[int]
    EFFICIENCY_FIELD_NUMBER: _ClassVar[int]
    POWER_FIELD_NUMBER: _ClassVar[int]
    IDLE_POWER_FIELD_NUMBER: _ClassVar[int]
    PRICE_USD_FIELD_NUMBER: _ClassVar[int]
    PRICE_USD_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    SCALE_UP_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    LIBRARY_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    name: str
    peak: _containers.ScalarMap[str, str]
    memory: str
    memory_bandwidth: str
    pcie: LinkSpec
    efficiency: EfficiencyCurve
    power: str
    idle_power: str
    price_usd: float
    price_usd_per_hour: float
    scale_up: LinkSpec
    rate: str
    library: str
    speed: float
    def __init__(self, name: _Optional[str] = ..., peak: _Optional[_Mapping[str, str]] = ..., memory: _Optional[str] = ..., memory_bandwidth: _Optional[str] = ..., pcie: _Optional[_Union[LinkSpec, _Mapping]] = ..., efficiency: _Optional[_Union[EfficiencyCurve, _Mapping]] = ..., power: _Optional[str] = ..., idle_power: _Optional[str] = ..., price_usd: _Optional[float] = ..., price_usd_per_hour: _Optional[float] = ..., scale_up: _Optional[_Union[LinkSpec, _Mapping]] = ..., rate: _Optional[str] = ..., library: _Optional[str] = ..., speed: _Optional[float] = ...) -> None: ...

class EfficiencyCurve(_message.Message):
    __slots__ = ("matmul", "attention", "memory", "half_flops", "attention_half_flops", "overhead", "processors", "inner_ramp", "edge_ramp", "attention_half_keys", "attention_half_queries", "attention_backward", "norm")
    MATMUL_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    HALF_FLOPS_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_HALF_FLOPS_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    INNER_RAMP_FIELD_NUMBER: _ClassVar[int]
    EDGE_RAMP_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_HALF_KEYS_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_HALF_QUERIES_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_BACKWARD_FIELD_NUMBER: _ClassVar[int]
    NORM_FIELD_NUMBER: _ClassVar[int]
    matmul: float
    attention: float
    memory: float
    half_flops: float
    attention_half_flops: float
    overhead: str
    processors: int
    inner_ramp: float
    edge_ramp: float
    attention_half_keys: float
    attention_half_queries: float
    attention_backward: float
    norm: float
    def __init__(self, matmul: _Optional[float] = ..., attention: _Optional[float] = ..., memory: _Optional[float] = ..., half_flops: _Optional[float] = ..., attention_half_flops: _Optional[float] = ..., overhead: _Optional[str] = ..., processors: _Optional[int] = ..., inner_ramp: _Optional[float] = ..., edge_ramp: _Optional[float] = ..., attention_half_keys: _Optional[float] = ..., attention_half_queries: _Optional[float] = ..., attention_backward: _Optional[float] = ..., norm: _Optional[float] = ...) -> None: ...

class LinkSpec(_message.Message):
    __slots__ = ("bandwidth", "latency")
    BANDWIDTH_FIELD_NUMBER: _ClassVar[int]
    LATENCY_FIELD_NUMBER: _ClassVar[int]
    bandwidth: str
    latency: str
    def __init__(self, bandwidth: _Optional[str] = ..., latency: _Optional[str] = ...) -> None: ...

class NicSpec(_message.Message):
    __slots__ = ("bandwidth", "latency", "per_host")
    BANDWIDTH_FIELD_NUMBER: _ClassVar[int]
    LATENCY_FIELD_NUMBER: _ClassVar[int]
    PER_HOST_FIELD_NUMBER: _ClassVar[int]
    bandwidth: str
    latency: str
    per_host: int
    def __init__(self, bandwidth: _Optional[str] = ..., latency: _Optional[str] = ..., per_host: _Optional[int] = ...) -> None: ...

class ScaleOutSpec(_message.Message):
    __slots__ = ("uplink", "hosts_per_tor", "spines")
    UPLINK_FIELD_NUMBER: _ClassVar[int]
    HOSTS_PER_TOR_FIELD_NUMBER: _ClassVar[int]
    SPINES_FIELD_NUMBER: _ClassVar[int]
    uplink: LinkSpec
    hosts_per_tor: int
    spines: int
    def __init__(self, uplink: _Optional[_Union[LinkSpec, _Mapping]] = ..., hosts_per_tor: _Optional[int] = ..., spines: _Optional[int] = ...) -> None: ...

class ModelSpec(_message.Message):
    __slots__ = ("name", "layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "seq_len", "gated", "norm", "bias", "learned_positions", "tied", "dropout", "experts", "experts_per_token", "expert_ffn", "shared_ffn")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    KV_HEADS_FIELD_NUMBER: _ClassVar[int]
    FFN_FIELD_NUMBER: _ClassVar[int]
    VOCAB_FIELD_NUMBER: _ClassVar[int]
    SEQ_LEN_FIELD_NUMBER: _ClassVar[int]
    GATED_FIELD_NUMBER: _ClassVar[int]
    NORM_FIELD_NUMBER: _ClassVar[int]
    BIAS_FIELD_NUMBER: _ClassVar[int]
    LEARNED_POSITIONS_FIELD_NUMBER: _ClassVar[int]
    TIED_FIELD_NUMBER: _ClassVar[int]
    DROPOUT_FIELD_NUMBER: _ClassVar[int]
    EXPERTS_FIELD_NUMBER: _ClassVar[int]
    EXPERTS_PER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPERT_FFN_FIELD_NUMBER: _ClassVar[int]
    SHARED_FFN_FIELD_NUMBER: _ClassVar[int]
    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    seq_len: int
    gated: bool
    norm: str
    bias: bool
    learned_positions: bool
    tied: bool
    dropout: bool
    experts: int
    experts_per_token: int
    expert_ffn: int
    shared_ffn: int
    def __init__(self, name: _Optional[str] = ..., layers: _Optional[int] = ..., hidden: _Optional[int] = ..., heads: _Optional[int] = ..., kv_heads: _Optional[int] = ..., ffn: _Optional[int] = ..., vocab: _Optional[int] = ..., seq_len: _Optional[int] = ..., gated: _Optional[bool] = ..., norm: _Optional[str] = ..., bias: _Optional[bool] = ..., learned_positions: _Optional[bool] = ..., tied: _Optional[bool] = ..., dropout: _Optional[bool] = ..., experts: _Optional[int] = ..., experts_per_token: _Optional[int] = ..., expert_ffn: _Optional[int] = ..., shared_ffn: _Optional[int] = ...) -> None: ...

class DeploymentPlan(_message.Message):
    __slots__ = ("replicas", "name", "bucket", "zero", "serial_sync", "blocking_sends", "tp_overlap", "predicted", "tp_async", "rendezvous", "gather_overlap")
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    ZERO_FIELD_NUMBER: _ClassVar[int]
    SERIAL_SYNC_FIELD_NUMBER: _ClassVar[int]
    BLOCKING_SENDS_FIELD_NUMBER: _ClassVar[int]
    TP_OVERLAP_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_FIELD_NUMBER: _ClassVar[int]
    TP_ASYNC_FIELD_NUMBER: _ClassVar[int]
    RENDEZVOUS_FIELD_NUMBER: _ClassVar[int]
    GATHER_OVERLAP_FIELD_NUMBER: _ClassVar[int]
    replicas: _containers.RepeatedCompositeFieldContainer[Replica]
    name: str
    bucket: str
    zero: int
    serial_sync: bool
    blocking_sends: bool
    tp_overlap: bool
    predicted: str
    tp_async: bool
    rendezvous: bool
    gather_overlap: bool
    def __init__(self, replicas: _Optional[_Iterable[_Union[Replica, _Mapping]]] = ..., name: _Optional[str] = ..., bucket: _Optional[str] = ..., zero: _Optional[int] = ..., serial_sync: _Optional[bool] = ..., blocking_sends: _Optional[bool] = ..., tp_overlap: _Optional[bool] = ..., predicted: _Optional[str] = ..., tp_async: _Optional[bool] = ..., rendezvous: _Optional[bool] = ..., gather_overlap: _Optional[bool] = ...) -> None: ...

class Replica(_message.Message):
    __slots__ = ("stages", "micro_batch", "micro_batches")
    STAGES_FIELD_NUMBER: _ClassVar[int]
    MICRO_BATCH_FIELD_NUMBER: _ClassVar[int]
    MICRO_BATCHES_FIELD_NUMBER: _ClassVar[int]
    stages: _containers.RepeatedCompositeFieldContainer[Stage]
    micro_batch: int
    micro_batches: int
    def __init__(self, stages: _Optional[_Iterable[_Union[Stage, _Mapping]]] = ..., micro_batch: _Optional[int] = ..., micro_batches: _Optional[int] = ...) -> None: ...

class Stage(_message.Message):
    __slots__ = ("groups", "layers", "sequence_parallel", "micro_batch", "ep", "recompute")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    MICRO_BATCH_FIELD_NUMBER: _ClassVar[int]
    EP_FIELD_NUMBER: _ClassVar[int]
    RECOMPUTE_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[DeviceGroup]
    layers: _containers.RepeatedCompositeFieldContainer[LayerRange]
    sequence_parallel: bool
    micro_batch: int
    ep: int
    recompute: _containers.RepeatedCompositeFieldContainer[Recompute]
    def __init__(self, groups: _Optional[_Iterable[_Union[DeviceGroup, _Mapping]]] = ..., layers: _Optional[_Iterable[_Union[LayerRange, _Mapping]]] = ..., sequence_parallel: _Optional[bool] = ..., micro_batch: _Optional[int] = ..., ep: _Optional[int] = ..., recompute: _Optional[_Iterable[_Union[Recompute, _Mapping]]] = ...) -> None: ...

class Recompute(_message.Message):
    __slots__ = ("operator", "layers")
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    operator: str
    layers: LayerRange
    def __init__(self, operator: _Optional[str] = ..., layers: _Optional[_Union[LayerRange, _Mapping]] = ...) -> None: ...

class DeviceGroup(_message.Message):
    __slots__ = ("ranks", "samples", "cp", "tp_shares", "state_shares")
    RANKS_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    CP_FIELD_NUMBER: _ClassVar[int]
    TP_SHARES_FIELD_NUMBER: _ClassVar[int]
    STATE_SHARES_FIELD_NUMBER: _ClassVar[int]
    ranks: _containers.RepeatedScalarFieldContainer[int]
    samples: int
    cp: int
    tp_shares: _containers.RepeatedScalarFieldContainer[float]
    state_shares: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, ranks: _Optional[_Iterable[int]] = ..., samples: _Optional[int] = ..., cp: _Optional[int] = ..., tp_shares: _Optional[_Iterable[float]] = ..., state_shares: _Optional[_Iterable[float]] = ...) -> None: ...

class LayerRange(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...
