"""The judge bites: what it says of wrong plans."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.strategies import SITE, with_rings
from xsim.errors import PlanError
from xsim.fabric.transfers import TransferGraph, concatenate, ring
from xsim.plan.collective.ring import Ring
from xsim.plan.comm import Collective, CollectiveKind, CommPlan, Transfer, Zeros, phases
from xsim.plan.judge import verify_collective, verify_move, verify_reduce, verify_reduce_scatter
from xsim.plan.layout import Layout

TP2, TP1 = Layout.even((0, 1), 4), Layout.even((2,), 4)


def rejects(plan: CommPlan | TransferGraph, source: Layout, target: Layout) -> str:
    with pytest.raises(PlanError) as caught:
        verify_move(plan, source, target)
    return str(caught.value)


class TestMessages:
    def test_a_collective_needs_what_it_sums(self) -> None:
        layouts = Layout.even((1, 2), 2), Layout.even((4,), 2)
        plan = CommPlan((Collective("all_reduce", (1, 4), range(1, 2)),))
        with pytest.raises(PlanError) as caught:
            verify_reduce(plan, layouts)

        assert str(caught.value) == (
            "step 0: rank 1 does not hold element 1 for Collective('all_reduce', ranks=(1, 4), span=range(1, 2))"
        )

    def test_a_sender_needs_what_it_sends(self) -> None:
        plan = CommPlan((Transfer(0, 2, range(3)),))

        assert rejects(plan, TP2, TP1) == "step 0: rank 0 does not hold element 2 for Transfer(0, 2, span=range(0, 3))"

    def test_a_receiver_needs_what_it_adds_to(self) -> None:
        plan = CommPlan((Transfer(0, 2, range(2), add=True),))

        assert "rank 2 does not hold element 0 for Transfer(0, 2, span=range(0, 2), add=True)" in rejects(
            plan, TP2, TP1
        )

    def test_a_hole_at_the_end(self) -> None:
        plan = CommPlan((Transfer(0, 2, range(2)),))

        assert rejects(plan, TP2, TP1) == "at the end rank 2 has the data not at all in element 2"

    def test_a_gradient_counted_twice(self) -> None:
        layouts = Layout.even((0,), 4), Layout.even((1,), 4)
        once, twice = Transfer(0, 1, range(4), add=True), Transfer(0, 1, range(2), add=True)
        plan = phases((once, twice), (Transfer(1, 0, range(4)),))
        with pytest.raises(PlanError, match=r"at the end rank 0 has layouts\[0\] more than once in element 0"):
            verify_reduce(plan, layouts)

    def test_an_order_left_to_luck(self) -> None:
        plan = CommPlan((Transfer(0, 2, range(2)), Transfer(1, 2, range(2, 4)), Transfer(2, 3, range(4))))

        assert rejects(plan, TP2, Layout.even((3,), 4)) == (
            "step 0, Transfer(0, 2, span=range(0, 2)), and step 2, Transfer(2, 3, span=range(0, 4)), "
            "both touch element 0 of rank 2, and neither waits for the other"
        )

    def test_a_step_that_waits_for_a_later_one(self) -> None:
        plan = CommPlan((Transfer(0, 2, range(2), after=(1,)), Transfer(1, 2, range(2, 4))))

        assert rejects(plan, TP2, TP1) == "step 0 waits for step 1, which does not come before it"


class TestCounting:
    def test_adds_to_one_piece_commute(self) -> None:
        layouts = [Layout.even((rank,), 6) for rank in range(4)]
        to_root = [Transfer(rank, 0, range(6), add=True) for rank in (1, 2, 3)]
        back = [Transfer(0, rank, range(6)) for rank in (1, 2, 3)]

        verify_reduce(phases(to_root, back), layouts)

    def test_replicas_are_one_contribution(self) -> None:
        copies, single = Layout.even((0, 1), 4, replicated=True), Layout.even((2,), 4)
        wrong = CommPlan((Collective("all_reduce", (0, 1, 2), range(4)),))
        right = phases([Collective("all_reduce", (0, 2), range(4))], [Transfer(0, 1, range(4))])

        verify_reduce(right, (copies, single))
        with pytest.raises(PlanError, match=r"layouts\[0\] more than once"):
            verify_reduce(wrong, (copies, single))

    def test_a_reduce_scatter_spoils_the_rest(self) -> None:
        layouts = Layout.even((0,), 4), Layout.even((1,), 4)
        halves = Collective("reduce_scatter", (0, 1), range(4))
        whole = Collective("all_gather", (0, 1), range(4))

        verify_reduce(phases([halves], [whole]), layouts)
        with pytest.raises(PlanError, match="not at all"):
            verify_reduce(phases([halves]), layouts)

    def test_a_reduce_and_a_broadcast_are_an_all_reduce(self) -> None:
        layouts = Layout.even((0,), 4), Layout.even((1,), 4)
        down = Collective("broadcast", (0, 1), range(4), root=1)
        for root, right in ((1, True), (0, False)):
            plan = phases([Collective("reduce", (0, 1), range(4), root=root)], [down])
            for form in (plan, with_rings(plan)):
                if right:
                    verify_reduce(form, layouts)
                else:
                    with pytest.raises(PlanError, match=r"not (at all|hold)"):
                        verify_reduce(form, layouts)

    def test_an_all_to_all_gives_each_rank_a_block_of_every_piece(self) -> None:
        """Rank 0 has 0 and 1, rank 1 has 2 and 3; it gives 2, and not 3."""
        two, one = Layout.even((0, 1), 4), Layout.even((0,), 4)
        exchange = Collective("all_to_all", (0, 1), range(4))

        assert exchange.blocks() == ((range(1), range(1, 2)), (range(2, 3), range(3, 4)))
        for form in (CommPlan((exchange,)), with_rings(CommPlan((exchange,)))):
            assert rejects(form, two, one) == "at the end rank 0 has the data not at all in element 3"
        verify_move(phases([exchange], [Transfer(1, 0, range(3, 4))]), two, one)

    def test_a_send_receive_gives_each_rank_the_piece_before_its_own(self) -> None:
        three, shift = Layout.even((0, 1, 2), 6), Collective("send_recv", (0, 1, 2), range(6))
        pairs = phases([shift], [Transfer(0, 2, range(2))])  # rank 2 had its own and got that of rank 1

        for form in (pairs, with_rings(pairs)):
            verify_move(form, three, Layout.even((2,), 6))
            assert "element 2" in rejects(form, three, Layout.even((0,), 6))

    @pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
    def test_a_ring_that_stops_a_round_early(self, kind: CollectiveKind) -> None:
        collective = Collective(kind, (0, 1, 2), range(9))
        graph = Ring().expand(collective, SITE)
        with pytest.raises(PlanError):
            verify_collective(replace(graph, rounds=graph.rounds - 1), collective)

    def test_a_ring_that_adds_a_round_too_long(self) -> None:
        collective = Collective("all_reduce", (0, 1, 2), range(9))
        graph = Ring().expand(collective, SITE)
        with pytest.raises(PlanError, match="more than once"):
            verify_collective(replace(graph, add_rounds=graph.add_rounds + 1), collective)

    def test_a_reduce_scatter_that_leaves_pieces_next_door(self) -> None:
        collective = Collective("reduce_scatter", (0, 1, 2), range(9))
        turned = ring((0, 1, 2), collective.pieces(), rounds=2, add_rounds=2)
        with pytest.raises(PlanError, match="not at all"):
            verify_collective(concatenate([(turned, [(), (), ()])], ((0, 1, 2),)), collective)

    def test_a_shard_of_what_its_rank_does_not_hold(self) -> None:
        layouts = Layout.even((0, 1), 4), Layout.even((2, 3), 4)
        shards = Layout((1, 0, 2, 3), (0, 1, 2, 3, 4))
        with pytest.raises(PlanError, match=r"rank 1 has the shard range\(0, 1\) and does not hold all of it"):
            verify_reduce_scatter(CommPlan(()), layouts, shards)

    def test_a_sum_that_stays_in_parts(self) -> None:
        layouts = Layout((0,), (0, 4)), Layout((1,), (0, 4))
        shards = Layout((0, 1), (0, 2, 4))
        plan = CommPlan((Transfer(1, 0, range(2), add=True),))
        with pytest.raises(PlanError, match=r"at the end rank 1 has layouts\[0\] not at all in element 2"):
            verify_reduce_scatter(plan, layouts, shards)


class TestZeros:
    """Two ranks with a half each, one with the whole."""

    LAYOUTS = (TP2, TP1)
    PADDED = CommPlan(
        (Collective("all_reduce", (0, 1, 2), range(4)),), zeros=(Zeros(0, range(2, 4)), Zeros(1, range(2)))
    )

    def complaint(self, *zeros: Zeros) -> str:
        """What the judge says of the sum with other zeros; the lowered form is refused too."""
        plan = replace(self.PADDED, zeros=zeros)
        with pytest.raises(PlanError):
            verify_reduce(with_rings(plan, 2), self.LAYOUTS, 2)
        with pytest.raises(PlanError) as caught:
            verify_reduce(plan, self.LAYOUTS)
        return str(caught.value)

    def test_zeros_count_for_nothing(self) -> None:
        verify_reduce(self.PADDED, self.LAYOUTS)
        verify_reduce(with_rings(self.PADDED, 2), self.LAYOUTS, 2)

    def test_what_is_neither_held_nor_zero_may_not_be_summed(self) -> None:
        assert "step 0: rank 1 does not hold element 0" in self.complaint(Zeros(0, range(2, 4)))
        assert "step 0: rank 1 does not hold element 1" in self.complaint(Zeros(0, range(2, 4)), Zeros(1, range(1)))

    def test_zeros_in_place_of_a_gradient_lose_it(self) -> None:
        assert self.complaint(*self.PADDED.zeros, Zeros(1, range(3))) == (
            "at the end rank 1 has layouts[0] not at all in element 2"
        )

    def test_zeros_alone_are_no_data(self) -> None:
        layouts = Layout.even((0,), 4), Layout.even((1,), 4)
        with pytest.raises(PlanError, match=r"rank 0 has layouts\[1\] not at all in element 0"):
            verify_reduce(CommPlan((), zeros=(Zeros(1, range(4)),)), layouts)

    def test_zeros_may_be_spoilt(self) -> None:
        halves = Collective("reduce_scatter", (0, 1, 2), range(4))
        again = Collective("all_reduce", (0, 1, 2), range(4))
        with pytest.raises(PlanError, match="step 1: rank 0 does not hold element 1"):
            verify_reduce(replace(phases([halves], [again]), zeros=self.PADDED.zeros), self.LAYOUTS)
