"""What every noise owes: a draw for each iteration that depends on the seed and on nothing that was drawn before."""

from __future__ import annotations

import pickle
import subprocess
import sys
from itertools import islice, pairwise
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import load
from tests.topologies import TOPOLOGIES
from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.families import build, members
from xsim.plan.contracts import Noise
from xsim.plan.draw import Draw
from xsim.spec.cluster import ClusterSpec, rank_devices

BUSY = {"slow": 0.3, "slow_nics": 0.3, "stalls_per_hour": 3000.0}
WILD = {"spread": 1.0, "jitter": 1.0, "slow": 0.5, "slow_speed": 0.01}
EACH = pytest.mark.parametrize(
    "noise",
    [
        *(pytest.param(cls(), id=name) for name, cls in members("noise")),
        pytest.param(build("noise", {"name": "devices", **BUSY}), id="busy"),
        pytest.param(build("noise", {"name": "devices", **WILD}), id="wild"),
    ],
)
FIG4 = load(ClusterSpec, "fig4")
FABRICS = {name: topology.build(FIG4) for name, topology in TOPOLOGIES.items()}
SEEDS = st.integers(-(2**63), 2**63 - 1)


def shown(draw: Draw, ranks: int = 10) -> tuple[object, ...]:
    """All of a draw that can be seen."""
    return draw.speeds, dict(draw.rates), [list(islice(draw.stalls(rank), 5)) for rank in range(ranks)]


@EACH
@given(seed=SEEDS, iteration=st.integers(0, 1000), topology=st.sampled_from(sorted(FABRICS)))
def test_a_draw_is_of_the_seed_and_the_iteration_alone(noise: Noise, seed: int, iteration: int, topology: str) -> None:
    fabric = FABRICS[topology]
    first = shown(noise.draw(fabric, seed, iteration))

    noise.draw(fabric, seed, iteration + 1)
    assert shown(pickle.loads(pickle.dumps(noise)).draw(fabric, seed, iteration)) == first
    assert noise.varies() or shown(noise.draw(fabric, seed, iteration + 1)) == first


@EACH
@given(seed=SEEDS, topology=st.sampled_from(sorted(FABRICS)))
def test_draws_keep_to_their_contract(noise: Noise, seed: int, topology: str) -> None:
    fabric = FABRICS[topology]
    draw = noise.draw(fabric, seed, 0)

    assert len(draw.speeds) in (0, len(fabric.hosts))
    assert all(speed > 0 for speed in draw.speeds)
    assert len(draw.devices(rank_devices(FIG4))) == len(fabric.hosts)
    assert all(0 < rate <= 1 and fabric.links[link].kind == "nic" for link, rate in draw.rates.items())
    for rank in range(len(fabric.hosts)):
        stalls = list(islice(draw.stalls(rank), 20))
        assert all(before.at_ps <= after.at_ps for before, after in pairwise(stalls))
        assert all(stall.at_ps >= 0 and stall.for_ps > 0 for stall in stalls)


def devices(**options: object) -> Noise:
    made: Noise = build("noise", {"name": "devices", **options})
    return made


@pytest.mark.parametrize(("spread", "jitter"), [(0.05, 0.0), (0.0, 0.05)])
def test_speeds_are_spread_as_asked(spread: float, jitter: float) -> None:
    """Of logarithms: among devices, and of one device among iterations."""
    import math

    noise = devices(spread=spread, jitter=jitter)
    draws = [noise.draw(FABRICS["clos"], seed, 0).speeds for seed in range(200)]
    logarithms = [math.log(speed) for speeds in draws for speed in speeds]
    again = [noise.draw(FABRICS["clos"], 0, iteration).speeds for iteration in range(50)]

    assert stdev(logarithms) == pytest.approx(0.05, rel=0.1)
    assert fmean(logarithms) == pytest.approx(0, abs=0.005)
    assert (len(set(again)) == 50) is (jitter > 0)


def test_part_of_the_devices_and_of_the_nics_is_slow_in_all_iterations() -> None:
    noise = devices(spread=0.0, jitter=0.0, slow=0.25, slow_speed=0.5, slow_nics=0.25, slow_rate=0.1)
    fabric: Fabric = FABRICS["clos"]
    draws = [noise.draw(fabric, seed, 0) for seed in range(200)]

    assert {speed for draw in draws for speed in draw.speeds} == {0.5, 1.0}
    assert fmean(speed == 0.5 for draw in draws for speed in draw.speeds) == pytest.approx(0.25, abs=0.03)
    nics = sum(link.kind == "nic" for link in fabric.links)
    assert sum(len(draw.rates) for draw in draws) / (200 * nics) == pytest.approx(0.25, abs=0.03)
    for number, draw in enumerate(draws[:20]):
        ends = {frozenset(fabric.links[link].name.split(" -> ")) for link in draw.rates}
        assert 2 * len(ends) == len(draw.rates), "a NIC is slow both ways"
        assert noise.draw(fabric, number, 7).rates == draw.rates
        slowed = draw.fabric(fabric).bandwidth_bytes_per_s / fabric.bandwidth_bytes_per_s
        assert {link for link, factor in enumerate(slowed.tolist()) if factor != 1} == set(draw.rates)


def test_stalls_come_as_often_as_asked() -> None:
    draw = devices(stalls_per_hour=60.0, stall="2 ms").draw(FABRICS["clos"], 0, 0)
    stalls = list(islice(draw.stalls(3), 2000))

    assert {stall.for_ps for stall in stalls} == {2 * 10**9}
    assert stalls[-1].at_ps / 2000 == pytest.approx(60e12, rel=0.1)
    assert list(islice(draw.stalls(4), 3)) != stalls[:3]


def test_another_process_draws_the_same() -> None:
    """Whatever the seed of its hashes."""
    program = (
        "from tests.contracts.test_noise import *\n"
        "print(shown(build('noise', {'name': 'devices', **BUSY}).draw(FABRICS['rail'], 5, 3)))"
    )
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert other.stdout.strip() == str(shown(devices(**BUSY).draw(FABRICS["rail"], 5, 3)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spread": 1.5}, "noise.spread = 1.5: it is not within 0 to 1; check the number and its unit"),
        ({"slow_rate": 0.0}, "noise.slow_rate = 0.0: it is not within 0.01 to 1; check the number and its unit"),
        ({"stall": "3"}, "noise.stall = '3': a quantity needs its unit; write "),
        ({"stall": "2 h"}, "noise.stall = 2 h: the unit 'h' is unknown here; "),
        ({"stall": "0 s"}, "noise.stall = 0 s: it is not within 1 ps to 3600 s; check the number and its unit"),
    ],
)
def test_what_no_device_does_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        devices(**options)

    assert str(caught.value).replace("'2 h'", "2 h").replace("'0 s'", "0 s").startswith(message)
