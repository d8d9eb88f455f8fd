"""Plain data to specs and back: equal in every spelling, and a clear refusal of anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spec import strategies
from xsim.errors import SpecError
from xsim.spec.cluster import ClusterSpec, DeviceSlot, DeviceSpec, HostSpec, NicSpec
from xsim.spec.codec import from_plain, to_plain
from xsim.spec.deployment import DeploymentPlan, Stage
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario
from xsim.spec.spellings import read_binary, read_text, write_binary, write_text

NIC = {"bandwidth": "400 Gbps", "latency": "2 us"}
HOST = {"devices": [{"device": "h100_80", "count": 2}], "nic": NIC}
CLUSTER = {"name": "two", "hosts": [HOST], "scale_out": {"uplink": NIC}}
MODEL = {
    "name": "tiny", "layers": 4, "hidden": 8, "heads": 2, "kv_heads": 2, "ffn": 32, "vocab": 16, "seq_len": 4,
    "gated": False, "norm": "layernorm", "bias": True, "learned_positions": True, "tied": True,
}  # fmt: skip
PLAN = {
    "replicas": [
        {
            "micro_batch": 3,
            "micro_batches": 2,
            "stages": [{"groups": [{"ranks": [0, 1]}], "layers": {"first": 1, "last": 4}}],
        }
    ]
}


@given(st.one_of(strategies.clusters, strategies.models(), strategies.plans()))
def test_every_spelling_comes_back(value: ClusterSpec | ModelSpec | DeploymentPlan) -> None:
    cls = type(value)
    assert from_plain(cls, to_plain(value)) == value
    assert read_text(cls, write_text(value)) == value
    assert read_text(cls, write_text(value, "textproto"), "textproto") == value
    assert read_binary(cls, write_binary(value)) == value


def test_a_scenario_comes_back() -> None:
    scenario = from_plain(Scenario, {"cluster": CLUSTER, "model": MODEL, "batch": 6, "deployment": PLAN})

    assert scenario == read_text(Scenario, write_text(scenario)) == read_binary(Scenario, write_binary(scenario))
    assert from_plain(Scenario, {"cluster": CLUSTER, "model": MODEL, "batch": 7, "deployment": None}).deployment is None


def test_three_spellings_of_one_host() -> None:
    yaml = """
    devices: [{device: h100_80, count: 2, rate: 204.9 TFLOPS}]
    nic: {bandwidth: 400 Gbps, latency: 2 us}
    """
    textproto = """
    devices { device { library: "h100_80" } count: 2 rate: "204.9 TFLOPS" }
    nic { bandwidth: "400 Gbps" latency: "2 us" }
    """
    host = read_text(HostSpec, yaml)

    assert read_text(HostSpec, textproto, "textproto") == host
    assert read_binary(HostSpec, write_binary(host)) == host
    assert host.nic == NicSpec(bandwidth_bytes_per_s=50e9, latency_ps=2_000_000)
    assert host.devices[0].rated_device.rate_flops_per_s == 204.9e12


def test_a_library_device_with_own_figures() -> None:
    stock = from_plain(DeviceSpec, "h100_80")
    own = from_plain(DeviceSpec, {"library": "h100_80", "price_usd": 1, "power": "350 W"})

    assert (own.price_usd, own.power_w) == (1.0, 350.0)
    assert (own.name, own.peak_flops_per_s, own.pcie) == (stock.name, stock.peak_flops_per_s, stock.pcie)


def test_the_only_group_takes_the_whole_micro_batch() -> None:
    plan = from_plain(DeploymentPlan, PLAN)

    assert plan.replicas[0].stages[0].groups[0].samples == 3
    assert plan.replicas[0].stages[0].layers == (range(1, 5),)


def test_several_layer_ranges_are_virtual_stages() -> None:
    groups = [{"ranks": [0], "samples": 1}]
    layers = [{"first": 1, "last": 2}, {"first": 5, "last": 6}]

    assert from_plain(Stage, {"groups": groups, "layers": layers}).layers == (range(1, 3), range(5, 7))


def test_null_is_absent() -> None:
    assert from_plain(NicSpec, {**NIC, "per_host": None}) == from_plain(NicSpec, NIC)
    assert from_plain(DeviceSlot, {"device": "t4", "count": 1, "domain": None}).domain == "0"


def changed(value: Any, path: tuple[Any, ...], item: object) -> Any:
    """``value`` with ``item`` at ``path``; ``...`` removes what is there."""
    if not path:
        return item
    first, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    if rest or item is not ...:
        copy[first] = changed(copy[first] if rest else None, tuple(rest), item)
    else:
        del copy[first]
    return copy


@pytest.mark.parametrize(
    ("path", "item", "message"),
    [
        (
            ("hosts", 0, "nic", "bandwidth"),
            400,
            "cluster.hosts[0].nic.bandwidth = 400: a quantity needs its unit; "
            "write a number and one of GB/s, TB/s, Mbps, Gbps, Tbps",
        ),
        (("hosts", 0, "nic"), ..., "cluster.hosts[0].nic = None: it is missing; HostSpec needs it"),
        (("hosts", 0, "nic"), None, "cluster.hosts[0].nic = None: it is missing; HostSpec needs it"),
        (
            ("hosts", 0, "nick"),
            1,
            "cluster.hosts[0].nick = 1: HostSpec has no such key; did you mean nic?",
        ),
        (
            ("hosts", 0, "colour"),
            "red",
            "cluster.hosts[0].colour = 'red': HostSpec has no such key; "
            "choose one of devices, nic, scale_up, count, domains, pcie_tree",
        ),
        (
            ("hosts", 0, 7),
            1,
            "cluster.hosts[0][7] = 1: HostSpec has no such key; "
            "choose one of devices, nic, scale_up, count, domains, pcie_tree",
        ),
        (
            ("hosts", 0, "devices", 0, "device"),
            "h100",
            "cluster.hosts[0].devices[0].device = 'h100': there is no such device; did you mean h100_80?",
        ),
        (
            ("hosts", 0, "devices", 0, "device"),
            {"library": "a100_8"},
            "cluster.hosts[0].devices[0].device.library = 'a100_8': there is no such device; did you mean a100_80?",
        ),
        (
            ("hosts", 0, "devices", 0, "count"),
            2.5,
            "cluster.hosts[0].devices[0].count = 2.5: it is not a whole number; write such as 8",
        ),
        (
            ("hosts", 0, "devices", 0, "count"),
            2**40,
            "cluster.hosts[0].devices[0].count = 1099511627776: it is beyond 32 bits; write at most 2147483647",
        ),
        (
            ("hosts", 0, "devices", 0, "count"),
            0,
            "cluster.hosts[0].devices[0].count = 0: it must be 1 or more; write 1 or more",
        ),
        (
            ("hosts", 0, "devices", 0, "rate"),
            "0 TFLOPS",
            "cluster.hosts[0].devices[0].rate = 0 TFLOPS: it must be positive; write a number above 0",
        ),
        (
            ("hosts", 0, "nic", "bandwidth"),
            "0 Gbps",
            "cluster.hosts[0].nic.bandwidth = 0 Gbps: it must be positive; write a number above 0",
        ),
        (
            ("hosts", 0, "nic", "per_host"),
            3,
            "cluster.hosts[0].nic.per_host = 3: more than the host's 2 devices; leave it out",
        ),
        (
            ("hosts", 0, "scale_up"),
            "nvlink",
            "cluster.hosts[0].scale_up = 'nvlink': this fabric is unknown; choose one of nvswitch, full_mesh, pcie",
        ),
        (
            ("hosts", 0, "devices", 0, "device"),
            "t4",
            "cluster.hosts[0].devices[0].scale_up = None: t4 has no scale-up port; "
            "write scale_up: pcie for the host or for this domain, or a link",
        ),
        (
            ("hosts",),
            {"devices": []},
            "cluster.hosts = {'devices': []}: it is not a list; write [..., ...] or one line with a dash for each",
        ),
        (("hosts",), [], "cluster.hosts = []: a cluster needs a host; list one under hosts"),
        (
            ("hosts", 0, "nic"),
            "fast",
            "cluster.hosts[0].nic = 'fast': it is not a mapping; write {bandwidth: ..., latency: ...}",
        ),
        (
            ("hosts", 0, "domains"),
            [{"name": "left", "scale_up": "pcie"}],
            "cluster.hosts[0].domains[0].name = 'left': no device of the host is in it; choose one of 0",
        ),
        (
            ("hosts", 0, "domains"),
            [{"name": "0", "scale_up": "torus"}],
            "cluster.hosts[0].domains[0].scale_up = 'torus': this fabric is unknown; "
            "choose one of nvswitch, full_mesh, pcie",
        ),
        (
            ("hosts", 0, "domains"),
            [{"name": "0", "scale_up": "pcie"}] * 2,
            "cluster.hosts[0].domains[1].name = '0': it is listed twice; list each domain once",
        ),
        (
            ("hosts", 0, "pcie_tree"),
            [{"devices": 1, "uplink": {"bandwidth": "1 GB/s", "latency": "0 ns"}}],
            "cluster.hosts[0].pcie_tree[0].devices = 1: it must be 2 or more; write 2 or more",
        ),
        (
            ("hosts", 0, "pcie_tree"),
            [{"devices": 2, "uplink": {"bandwidth": "1 GB/s", "latency": "0 ns"}}],
            "cluster.hosts[0].pcie_tree[0].devices = 2: it must divide the host's 2 devices into two blocks or more; "
            "leave the level out",
        ),
        (
            ("hosts", 0, "pcie_tree"),
            [{"devices": 2}],
            "cluster.hosts[0].pcie_tree[0].uplink = None: it is missing; PcieLevel needs it",
        ),
        (("name",), False, "cluster.name = False: it is not text; write it in quotes"),
        (
            ("name",),
            "a\nb",
            "cluster.name = 'a\\nb': it has unprintable characters; write it in one line of plain text",
        ),
        (
            ("hosts", 0, "devices", 0, "device"),
            {"library": "t4", "peak": {"bf16": 3}},
            "cluster.hosts[0].devices[0].device.peak.bf16 = 3: a quantity needs its unit; "
            "write a number and one of GFLOPS, TFLOPS, PFLOPS",
        ),
        (
            ("hosts", 0, "devices", 0, "device"),
            {"library": "t4", "peak": {"bf61": "3 TFLOPS"}},
            "cluster.hosts[0].devices[0].device.peak.bf61 = 3 TFLOPS: this dtype is unknown; "
            "choose one of fp32, tf32, fp16, bf16, fp8",
        ),
        (
            ("hosts", 0, "devices", 0, "device"),
            {"library": "t4", "price_usd": float("inf")},
            "cluster.hosts[0].devices[0].device.price_usd = inf: it is not a finite number; write such as 0.5",
        ),
    ],
)
def test_a_bad_cluster(path: tuple[str | int, ...], item: object, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        from_plain(ClusterSpec, changed(CLUSTER, path, item), "cluster")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("path", "item", "message"),
    [
        (("norm",), "batchnorm", "model.norm = 'batchnorm': it is unknown; choose one of layernorm, rmsnorm"),
        (("heads",), 3, "model.heads = 3: it does not divide hidden = 8; choose a divisor"),
        (("gated",), "yes", "model.gated = 'yes': it is neither true nor false; write true or false, without quotes"),
        (("layers",), True, "model.layers = True: it is not a whole number; write such as 8"),
        (("layers",), "4", "model.layers = '4': it is not a whole number; write such as 8"),
    ],
)
def test_a_bad_model(path: tuple[str | int, ...], item: object, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        from_plain(ModelSpec, changed(MODEL, path, item), "model")
    assert str(caught.value) == message


@pytest.mark.parametrize("found", [None, 5, "x", [], True, [1], float("nan")])
@pytest.mark.parametrize("cls", [ClusterSpec, ModelSpec, DeploymentPlan, Scenario])
def test_what_is_no_mapping_is_refused(cls: type[object], found: object) -> None:
    with pytest.raises(SpecError, match=r"it is not a mapping; write \{"):
        from_plain(cls, found, "input")


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.builds(lambda: 10**5000)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


def paths(value: object) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict):
        return [(), *((key, *rest) for key, item in value.items() for rest in paths(item))]
    if isinstance(value, list):
        return [(), *((index, *rest) for index, item in enumerate(value) for rest in paths(item))]
    return [()]


WHOLE = {
    "cluster": {**CLUSTER, "hosts": [to_plain(from_plain(HostSpec, HOST))]},
    "model": MODEL,
    "batch": 6,
    "deployment": PLAN,
}


@given(st.sampled_from(paths(WHOLE)), anything)
def test_any_value_in_any_place_is_read_or_refused(path: tuple[str | int, ...], item: object) -> None:
    read_or_refuse(lambda: from_plain(Scenario, changed(WHOLE, path, item), "scenario"))


@given(st.text(max_size=60) | st.text(alphabet="{}[]:,-&*!? \n'\"ab01.#|>%@<~", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    read_or_refuse(lambda: read_text(ClusterSpec, text))
    read_or_refuse(lambda: read_text(ClusterSpec, text, "textproto"))


@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 255))
def test_any_bytes_are_read_or_refused(data: bytes, place: int, byte: int) -> None:
    good = write_binary(from_plain(ClusterSpec, CLUSTER))
    read_or_refuse(lambda: read_binary(ClusterSpec, data))
    read_or_refuse(lambda: read_binary(ClusterSpec, good[:place] + bytes([byte]) + good[place + 1 :]))


def read_or_refuse(read: Callable[[], object]) -> None:
    refusals = []
    try:
        read()
    except SpecError as error:
        refusals.append(error)
    assert all(error.problem and error.fix and len(str(error)) < 1000 for error in refusals)


def test_textproto_names_the_nearest_field() -> None:
    with pytest.raises(SpecError) as caught:
        read_text(NicSpec, 'bandwith: "400 Gbps"', "textproto", "nic")
    assert caught.value.fix == "did you mean bandwidth?"
    assert str(caught.value).startswith("nic = 'bandwith: \"400 Gbps\"': it is not textproto: 1:1")


def test_binary_of_a_newer_schema_is_refused() -> None:
    newer = write_binary(from_plain(NicSpec, NIC)) + b"\xf8\x07\x01"  # field 127, a varint
    with pytest.raises(SpecError, match=r"it has fields that xsim\.proto does not know"):
        read_binary(NicSpec, newer, "nic")
