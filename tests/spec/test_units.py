"""Text with a unit: every prefix, the bit and the byte, and the way back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim import units
from xsim.errors import SpecError


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.parse_time, "1 ps", 1),
        (units.parse_time, "1.5 us", 1_500_000),
        (units.parse_time, "2e-3 s", 2_000_000_000),
        (units.parse_time, ".5ns", 500),
        (units.parse_bytes, "1 KB", 1000),
        (units.parse_bytes, "1 KiB", 1024),
        (units.parse_bytes, "80 GB", 80_000_000_000),
        (units.parse_bytes, "80 GiB", 85_899_345_920),
        (units.parse_bandwidth, "400 Gbps", 50e9),
        (units.parse_bandwidth, "400 Gb/s", 50e9),
        (units.parse_bandwidth, "400 GB/s", 400e9),
        (units.parse_bandwidth, "1 MiB/s", 1048576.0),
        (units.parse_flops, "312 TFLOPS", 312e12),
        (units.parse_flops, "2.25 PFLOPS", 2.25e15),
        (units.parse_power, "0.7 kW", 700.0),
    ],
)
def test_reads(parse: Callable[[object], float], text: str, value: float) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "value", "message"),
    [
        (
            units.parse_bandwidth,
            400,
            "400: a quantity needs its unit; write a number and one of GB/s, TB/s, Mbps, Gbps",
        ),
        (units.parse_bandwidth, "400", "'400': a quantity needs its unit; write a number and one of GB/s, TB/s, Mbps"),
        (units.parse_bandwidth, "400 GB", "400 GB: the unit 'GB' is unknown here; write a number and one of GB/s"),
        (units.parse_bandwidth, "400 gbps", "400 gbps: the unit 'gbps' is unknown here; write"),
        (units.parse_bytes, "80 Gb", "80 Gb: the unit 'Gb' is unknown here; write a number and one of KB, MB, GB, MiB"),
        (units.parse_time, True, "True: it is not a quantity; write a number and one of ns, us, ms, s"),
        (units.parse_time, None, "None: it is not a quantity; write a number and one of ns, us, ms, s"),
        (units.parse_time, "-1 s", "'-1 s': it is not a quantity; write a number and one of ns, us, ms, s"),
        (units.parse_time, float("nan"), "nan: a quantity needs its unit; write a number and one of ns, us, ms, s"),
        (units.parse_time, "1e30 s", "1e30 s: it is too large; write a smaller quantity"),
        (units.parse_power, "1e999 W", "1e999 W: it is too large; write a smaller quantity"),
        (units.parse_time, "1e999999999 s", "1e999999999 s: it is not a quantity; write a number and one of"),
        (
            units.parse_flops,
            "312 TFLOP",
            "312 TFLOP: the unit 'TFLOP' is unknown here; write a number and one of GFLOPS",
        ),
    ],
)
def test_refuses(parse: Callable[[object], float], value: object, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(value)
    assert str(caught.value).removeprefix("document = ").startswith(message)


@given(st.integers(0, 2**63 - 1))
def test_whole_quantities_come_back(value: int) -> None:
    assert units.parse_time(units.format_time(value)) == value
    assert units.parse_bytes(units.format_bytes(value)) == value


@given(st.floats(0, 1e30))
def test_rates_come_back(value: float) -> None:
    assert units.parse_bandwidth(units.format_bandwidth(value)) == value
    assert units.parse_flops(units.format_flops(value)) == value
    assert units.parse_power(units.format_power(value)) == value


@given(st.text() | st.integers() | st.floats() | st.none() | st.booleans())
def test_any_value_is_read_or_refused(value: object) -> None:
    for parse in (units.parse_time, units.parse_bytes, units.parse_bandwidth, units.parse_flops, units.parse_power):
        with contextlib.suppress(SpecError):
            assert parse(value) >= 0
