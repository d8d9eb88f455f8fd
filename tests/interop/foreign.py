"""Plans as other tools write them, for two kinds of devices and a model of eight layers."""

from __future__ import annotations

import json
from typing import Any

from tests.plan.test_sketch import hosts
from tests.plan.toy import model
from xsim.interop.plans.target import Target
from xsim.spec.scenario import Scenario

__all__ = ["ACESO", "AMP", "HEXISCALE", "JSON", "LOG", "MEGATRON", "METIS", "NAMES", "SAILOR", "TWO", "target"]

TWO = hosts((("fast", 4),), (("fast", 4),), (("slow", 4),), (("slow", 4),))
NAMES = {"A100": "fast", "T4": "slow"}


def target(layers: int = 8, batch: int | None = None, **more: Any) -> Target:
    scenario = Scenario(cluster=more.pop("cluster", TWO), model=model(layers=layers), batch=1, attention="unfused")
    return Target(scenario, batch=batch, devices=NAMES, **more)


METIS = """\
    parser.add_argument('--gbs', type=int, default=128)
rank, cost, node_sequence, device_group, strategies(dp_deg, tp_deg), batches(number of batch), layer_partition
1, 2396.5, (<DeviceType.T4: 't4'>, <DeviceType.A100: 'a100'>), [8, 8], [(4, 2), [8, 1]], 8, [0, 4, 10]
2, 2728.0, (<DeviceType.A100: 'a100'>, <DeviceType.T4: 't4'>), [4, 12], [(1, 4), (6, 2)], 16, [0, 9, 10]
3, 2728.0, (<DeviceType.A100: 'a100'>, <DeviceType.T4: 't4'>), [8, 8], [(4, 2), (4, 2)], 16, [0, 4, 4]
"""
SAILOR = json.dumps(
    {
        "mbs": 2,
        "iter_time": 5.25,
        "global_batch_size": 128,
        "pipeline_list": [
            {
                "num_stages": 2,
                "layers_per_stage": [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]],
                "tmp_per_stage": [
                    [[[["A100", 1, "us"]], 1], [[["A100", 1, "us"]], 1], [[["T4", 4, "us"]], 4]],
                    [[[["A100", 1, "us"]], 1]] * 3,
                ],
                "dp": [3, 3],
            }
        ],
    }
)
AMP = """\
{'hidden_size': tensor([64.]), 'num_layers': tensor([8.])}
gbs:32
rank 0: ((1, {'mp_deg': tensor([2.]), 'dp_deg': tensor([4.]), 'pp_deg': tensor([2.])}, \
defaultdict(<class 'list'>, {0: [0, 1, 2, 3], 1: [8, 9, 10, 11], 2: [4, 5, 6, 7], 3: [12, 13, 14, 15]}), \
[0, 7, 14]), tensor([1.0859]))
rank 1: ((2, {'mp_deg': tensor([1.]), 'dp_deg': tensor([1.]), 'pp_deg': tensor([3.])}, \
defaultdict(<class 'list'>, {0: [0, 1, 2, 3]}), [0, 1, 2, 14]), tensor([1.3]))
"""
ACESO = json.dumps(
    {
        "num_layers": 8,
        "global_batch_size": 64,
        "micro_batch_size": 4,
        "num_stages": 2,
        "num_gpus": [8, 4],
        "num_ops_in_each_stage": [52, 55],
        "model_parallel_size_of_each_op": [[2] * 52, [4] * 55],
        "data_parallel_size_of_each_op": [[4] * 52, [1] * 55],
        "recompute_ops": [[0] * 4 + [1, 1] + [0] * 46, [0] * 55],
    }
)
HEXISCALE = """\
torchrun --nproc_per_node 8 llama_train.py \\
--total-layer-num 8 --hetero_configs "[[4, 2]] + [[1] * 2]" --layer_partitions "[[5, 3], [4, 4]]" \\
--chunks 4 2 --global_bsz_size 8 6 --fp16
"""
LOG = """\
Optimal time: 8.012
    0-th pipeline: [1, 2]
     - devices: [[0], [1, 1]]
     - devices name: [['A100'], ['T4', 'T4']]
     - layer partitions: [3, 5]
     - memory estimation: [1, 2]
    1-th pipeline: [2]
     - devices: [[2, 2]]
     - devices name: [['A100', 'A100']]
     - layer partitions: [8]
"""
MEGATRON = """\
--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --num-layers 8 \\
--micro-batch-size 2 --global-batch-size=64 --sequence-parallel --recompute-granularity full \\
--recompute-method block --recompute-num-layers 3 --use-distributed-optimizer
"""
JSON = json.dumps(
    [
        {
            "id": "first",
            "layers": 8,
            "gbs": 60,
            "predicted_s": 1.5,
            "pipelines": [
                {
                    "mbs": 4,
                    "lbs": 36,
                    "stages": [
                        {
                            "type": "A100",
                            "devices": 4,
                            "dp": 2,
                            "tp": 2,
                            "layers": [0, 3],
                            "recompute": ["2 AS", "Qkv"],
                        },
                        {"type": "A100", "devices": 4, "dp": 1, "tp": 4, "layers": [3, 8], "recompute": "full"},
                    ],
                },
                {"mbs": 4, "lbs": 24, "stages": [{"type": "T4", "tp": 4, "ranks": [8, 9, 10, 11], "layers": [0, 8]}]},
            ],
        },
        {
            "id": "second",
            "layers": 10,
            "gbs": 1000,
            "mbs": 2,
            "pipelines": [
                {
                    "count": 2,
                    "stages": [
                        {"layers": [0, 1], "replicas": [{"type": "fast", "tp": 1, "count": 1}]},
                        {"layers": [1, 10], "replicas": [{"type": "slow", "tp": 2, "count": 1}]},
                    ],
                },
                {"stages": [{"layers": [0, 10], "replicas": [{"type": "fast", "tp": 1, "count": 4}]}]},
            ],
        },
    ]
)
