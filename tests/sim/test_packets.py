"""The packet simulation against ns-3, flow by flow, and what it owes whatever it is asked."""

from __future__ import annotations

import pytest

from tests.sim.netref import expected_ns, flows_of, graph_of, needs_reference
from xsim.sim.packets.replay import replay
from xsim.sim.packets.settings import Settings

HEADER_BYTES = {"hpcc": 48, "sai": 52}
WITHOUT_CONTROL = (
    *(("hpcc_nocc1000", name) for name in ("single_6hop_10K", "single_2hop_1M", "single_4hop_1M", "single_6hop_1M")),
    *(("hpcc_nocc1000", name) for name in ("star3_incast2_1M", "star17_incast16_1M", "ft16_perm_1M", "ft16_ring8_1M")),
    *(("hpcc_nocc1000", name) for name in ("ft16_ring16_1M", "ft16_ring16_4M", "ft128_incast16_1M")),
    *(("hpcc_nocc9000", name) for name in ("single_6hop_10M", "ft128_perm_1M", "ft16_ring16_4M", "ft128_incast16_1M")),
    *(("sai_nocc1000", name) for name in ("star17_incast16_1M", "ft16_perm_1M", "ft16_ring8_4M")),
    *(("sai_nocc9000", name) for name in ("star17_incast16_1M", "ft128_perm_1M", "ft16_ring16_4M")),
)


@needs_reference
@pytest.mark.parametrize(("setting", "name"), WITHOUT_CONTROL)
def test_flows_without_congestion_control_end_when_ns_3_has_them_end(setting: str, name: str) -> None:
    program, payload = setting.split("_nocc")
    topology = name.split("_", maxsplit=1)[0].replace("single", "ft16")
    graph = graph_of(topology)
    flows, ids = flows_of(name, graph)
    settings = Settings(tick_ps=1000, payload_bytes=int(payload), header_bytes=HEADER_BYTES[program])

    outcome = replay(graph, flows, settings)

    start_ns, end_ns = outcome.start_ps // 1000, outcome.sender_end_ps // 1000
    found = {flow: (int(start_ns[i]), int(end_ns[i] - start_ns[i])) for i, flow in enumerate(ids)}
    assert found == expected_ns(setting, name)
    if name == "ft128_incast16_1M":
        assert outcome.links.pauses.sum() > 0
