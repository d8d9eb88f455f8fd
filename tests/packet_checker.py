"""An independent look at packet networks when their statistics are asked for: nothing may be left over."""

from __future__ import annotations

import copy
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import packet_columns as k
from xsim.sim.kernels.never import NEVER_PS
from xsim.sim.packets.engine import Engine
from xsim.sim.packets.faults import Breaking
from xsim.sim.packets.instances import Instances
from xsim.sim.packets.tables import Growing
from xsim.sim.traffic.tally import Totals

__all__ = ["checked_retire", "checked_totals", "retire", "totals"]

totals, retire = Instances.totals, Instances._retire  # without a look
_carried_before: WeakKeyDictionary[Instances, NDArray[np.int64]] = WeakKeyDictionary()


def checked_retire(instances: Instances, base: int) -> None:
    """What ``Instances._retire`` does, noting what the flows have carried that are forgotten with it."""
    before = _carried_before.setdefault(instances, np.zeros(len(instances._engine.ports()), dtype=np.int64))
    before += _carried(instances._engine, instances._slots.flows(base))
    retire(instances, base)


def _carried(engine: Engine, flows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes per link that these flows have to carry by now."""
    carried = np.zeros(len(engine.ports()), dtype=np.int64)
    for flow in flows[(flows[:, k.CYCLE_LEN] > 0) & (flows[:, k.POSTED] > 0)]:
        way = engine.route[flow[k.WAY] :]
        carried[way[: np.argmax(way < 0)]] += flow[k.POSTED]
    return carried


def checked_totals(instances: Instances) -> Totals:
    """What ``Instances.totals`` says, after a look at the end of the run if all transfers are complete.

    Acknowledgements may still be under way: a copy of the engine goes on until they are there. Then no buffer holds
    anything, nobody is paused, and each transfer has carried its bytes over each of its links once.

    Raises:
        AssertionError: Something is left over, or missing.
    """
    engine = instances._engine
    flows = engine.flows
    rows = flows[:, k.CYCLE_LEN] > 0
    if (flows[rows, k.DONE] >= flows[rows, k.ROUNDS]).all():
        rest = _copied(engine)
        while rest.run(NEVER_PS) == k.GROW:
            rest.sim[k.LOGGED] = 0
        rest.check_empty()
        assert rest.sim[k.UNFINISHED] == 0, "a transfer waits for acknowledgements that do not come"
        links = engine.ports()
        carried = _carried(engine, flows) + _carried_before.get(instances, 0)
        if instances._settings.scatters or isinstance(engine, Breaking):  # then by several ways, as long as one another
            assert carried.sum() == links[:, k.CARRIED].sum(), "the links have not carried what was sent"
        else:
            assert (carried == links[:, k.CARRIED]).all(), "a link has not carried what was sent over it"
    return totals(instances)


def _copied(engine: Engine) -> Engine:
    """An engine of its own, with tables of its own."""
    found = copy.copy(engine)
    for name, value in vars(engine).items():
        if isinstance(value, np.ndarray):
            setattr(found, name, value.copy())
    found._rows = Growing(k.ROW_COLUMNS)
    found.rows = found._rows.grow(len(engine.rows))
    found.rows[:] = engine.rows
    return found
