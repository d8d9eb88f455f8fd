"""Orders of unit tasks: every task once, never longer than one after another, the optimum where it can be counted."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim.plan.launch import Choice, Job, Port, finish, greedy, improved


@st.composite
def jobs(draw: st.DrawFn, most: int) -> list[Job]:
    """1 to ``most`` jobs, each with 1 to 3 senders of 3 and 1 or 2 receivers of 3."""
    found = []
    for _ in range(draw(st.integers(1, most))):
        senders = draw(st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True))
        ins = [("in", i) for i in draw(st.lists(st.integers(0, 2), min_size=1, max_size=2, unique=True))]
        found.append(Job(draw(st.integers(1, 9)), {rank: (("out", rank), *ins) for rank in senders}))
    return found


def best(tasks: list[Job]) -> int:
    """By trying all."""
    return min(
        finish(tasks, list(zip(order, senders, strict=True)))
        for order in permutations(range(len(tasks)))
        for senders in product(*(tasks[number].ports for number in order))
    )


@given(tasks=jobs(8), trials=st.integers(1, 5), seed=st.integers(0, 9), evaluations=st.integers(0, 60))
def test_an_order_has_every_job_once_and_is_repeated(
    tasks: list[Job], trials: int, seed: int, evaluations: int
) -> None:
    first = greedy(tasks, trials, seed)
    found = improved(tasks, first, evaluations)

    for order in (first, found):
        assert sorted(number for number, _ in order) == list(range(len(tasks)))
        assert all(sender in tasks[number].ports for number, sender in order)
    assert finish(tasks, found) <= finish(tasks, first) <= sum(job.size for job in tasks)
    assert (greedy(tasks, trials, seed), improved(tasks, first, evaluations)) == (first, found)


@given(tasks=jobs(4))
def test_a_search_without_end_finds_the_optimum(tasks: list[Job]) -> None:
    assert finish(tasks, improved(tasks, greedy(tasks, 1, 0), 10**6)) == best(tasks)


def ports(sender: int, *receivers: int) -> tuple[Port, ...]:
    return ("out", sender), *(("in", rank) for rank in receivers)


def test_a_job_waits_for_the_port_of_its_sender_and_of_all_its_receivers() -> None:
    tasks = [Job(3, {0: ports(0, 5)}), Job(4, {1: ports(1, 6)}), Job(2, {2: ports(2, 5, 6)})]

    assert finish(tasks, [(0, 0), (1, 1), (2, 2)]) == 4 + 2


@pytest.mark.parametrize(("evaluations", "expected"), [(0, 6), (1000, 3)])
def test_the_search_mends_a_bad_order(evaluations: int, expected: int) -> None:
    """Sender 0 has 1 for receiver 5 and 2 for 6, sender 1 has 2 and 1: 3 in all at each of the four ports."""
    tasks = [Job(1, {0: ports(0, 5)}), Job(2, {0: ports(0, 6)}), Job(1, {1: ports(1, 6)}), Job(2, {1: ports(1, 5)})]
    slow: tuple[Choice, ...] = ((1, 0), (2, 1), (3, 1), (0, 0))

    assert finish(tasks, slow) == 2 + 1 + 2 + 1
    assert finish(tasks, improved(tasks, slow, evaluations)) == expected
