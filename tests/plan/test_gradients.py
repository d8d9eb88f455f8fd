from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.plan.toy import model
from xsim.plan.gradients import gradient_buckets
from xsim.plan.groups import Holder


@st.composite
def holders(draw: st.DrawFn, layers: int) -> list[Holder]:
    """One to four replicas, each cut into stages of its own."""
    found = []
    for replica in range(draw(st.integers(1, 4))):
        inner = draw(st.sets(st.integers(1, layers + 1), max_size=3))
        for stage, (start, stop) in enumerate(pairwise((0, *sorted(inner), layers + 2))):
            found.append(Holder((10 * replica + stage,), range(start, stop)))
    return found


@given(st.data(), st.integers(1, 6), st.booleans(), st.none() | st.integers(1, 200_000))
def test_every_shared_gradient_is_summed_once_by_all_its_holders(
    data: st.DataObject,
    layers: int,
    tied: bool,
    most: int | None,
) -> None:
    spec, many = model(layers=layers, tied=tied), data.draw(holders(layers))
    buckets = gradient_buckets(spec, many, most)

    for layer in range(1, layers + 1):
        having = tuple(i for i, holder in enumerate(many) if layer in holder.layers)
        summed = [bucket.members for bucket in buckets if bucket.kind == "dense" and layer in bucket.layers]
        assert summed == ([having] if len(having) > 1 else [])
    for bucket in buckets:
        assert all(layer in many[i].layers for i, layer in zip(bucket.members, bucket.after, strict=True))
        if bucket.kind == "dense" and most is not None:
            assert bucket.size <= most or len(bucket.layers) == 1


@given(st.data(), st.integers(1, 6), st.booleans())
def test_the_buckets_of_two_replicas_hold_the_model_once(
    data: st.DataObject,
    layers: int,
    tied: bool,
) -> None:
    spec, many = model(layers=layers, tied=tied), data.draw(holders(layers))
    buckets = gradient_buckets(spec, many, None)

    if sum(0 in holder.layers for holder in many) > 1:
        assert sum(bucket.size for bucket in buckets) == spec.parameters
