"""Runs a workload: one SimPy process per device group, interleaved with a network.

SimPy is the clock of the training side. Pipeline dependencies (the paper's pipeline barrier groups, section 4.5) are
events that the arrival of an activation or gradient triggers; gradient syncs (its data barrier groups) are events that
the network triggers once every member has been released and its last byte has come.

The two clocks are interleaved conservatively: the network never runs past SimPy's next event, and goes first at equal
instants. An action is *folded*: it takes one timeout as far as surely nobody disturbs its collectives. When the first
that is not sure begins, more is known: it is folded with those that follow, or walked, that is, goes through the
network. Every fetch of weights is walked, at which programs wait for each other in the midst of an action. Folding
changes no number: ``fold=False`` walks everything, and a test compares. With packets that is not quite so, by up to a
hundredth of a per cent: what begins at the end of another collective meets the last acknowledgements of that one,
unless it was folded; and of what is released at one instant, either may come first.
"""

from __future__ import annotations

import gc
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial

import numpy as np
import simpy
from numpy.typing import NDArray

from xsim.errors import PlanError, SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph
from xsim.plan.workload import UPDATE, Action, Body, Fetch, Move, Workload
from xsim.sim.contracts import Completion, Network, Stream
from xsim.sim.course import Course, Part, course_of, least_alone_ps, parts_of
from xsim.sim.due import Due
from xsim.sim.exchanges import exchanges_of
from xsim.sim.folding import Folding
from xsim.sim.kernels.never import LONGEST_PS
from xsim.sim.network.analytic import Analytic
from xsim.sim.streams import Streams
from xsim.sim.syncs import Syncs
from xsim.sim.timeline import Exchange, Log, Timeline
from xsim.units import PS_PER_S

__all__ = ["execute"]

Steps = Generator[simpy.Event, object, None]
Ints = NDArray[np.int64]


def execute(
    workload: Workload, network: Network, fabric: Fabric, *, fold: bool = True, background: Sequence[Stream] = ()
) -> Timeline:
    """One iteration of ``workload``, from its first forward to its last update.

    Args:
        workload: What to run.
        network: A fresh one; afterwards its statistics cover the whole iteration.
        fabric: The wires that ``network`` was opened on.
        fold: False walks every action, as a test of folding.
        background: Traffic that shares the wires until the iteration has ended.

    Raises:
        PlanError: Some program waits for ever: its schedule or a plan is wrong.
        SpecError: The iteration takes longer than the clock counts; or its schedule does not go with a rendezvous.
    """
    if background:  # in company of what never ends nobody sees that a program waits for ever
        execute(workload, Analytic().open(fabric, 0), fabric)
    least_ps = cache(partial(least_alone_ps, network.solo, fabric))
    bodies = (body for program in workload.programs for body in program.each_body())
    courses = {body: course_of(body, network.solo, least_ps) for body in bodies}
    graphs = [graph for stream in background for graph in stream.graphs]
    folding = None
    if fold and network.foldable:
        folding = Folding(workload, courses, fabric, contends=network.contends, background=graphs)
    run = _Run(workload, network, courses, folding, Streams(network, background))
    processes = [run.env.process(run.device_group(index)) for index in range(len(workload.programs))]
    with _no_search_for_cycles():
        run.to_the_end(run.env.all_of(processes))
    stuck = [index for index, process in enumerate(processes) if process.is_alive]
    if stuck:
        raise PlanError(f"program {stuck[0]} waits for ever in {run.position[stuck[0]]}; {len(stuck)} programs hang")
    undisturbed: Counter[TransferGraph] = Counter()
    for body, times in run.performed.items():
        for graph, once in Counter(courses[body].graphs(0, len(courses[body].stops))).items():
            undisturbed[graph] += once * times
    for graph, times in (undisturbed - run.walked).items():
        network.repeat(graph, times)
    return run.log.timeline({body: courses[body].collects_ps for body in run.performed if body in run.folded})


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """Python's garbage collector off: it would visit all that is alive again and again, and nothing here is garbage.

    Events and processes that are over have no cycles, and go with their last reference.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _too_long() -> SpecError:
    days = LONGEST_PS / PS_PER_S / 86400
    fix = "check the units of bandwidths, latencies and rates"
    return SpecError(
        "scenario", "one iteration", f"it takes longer than {days:.1f} days, which is too long to simulate", fix
    )


class _Run:
    """The state of one execution.

    Attributes:
        now_ps: SimPy's clock.
        performed: How often each body has run.
        walked: How often each collective has gone through the network.
        folded: Bodies that have run undisturbed.
        met: Exchanges on the wires, by handle.
    """

    def __init__(
        self,
        workload: Workload,
        network: Network,
        courses: Mapping[Body, Course],
        folding: Folding | None,
        streams: Streams,
    ) -> None:
        self.workload, self.network, self.courses, self.folding = workload, network, courses, folding
        self.streams = streams
        self.env = simpy.Environment()
        self.now_ps = 0
        self.log = Log(workload)
        self.position: list[Action | str] = ["its start"] * len(workload.programs)
        self.performed: Counter[Body] = Counter()
        self.walked: Counter[TransferGraph] = Counter()
        self.folded: set[Body] = set()
        self.moving: dict[int, Move] = {}  # per handle
        self.met: dict[int, Exchange] = {}
        self.came: set[tuple[Move, int]] = set()  # for which one side waits
        self.numbers = {move: number for number, move in enumerate(workload.moves)}
        self.parts = parts_of(workload, courses)
        self.exchanges = exchanges_of(workload, self.parts) if workload.rendezvous else []
        self.arrivals: dict[tuple[Move, int], Due] = {}
        self.syncs = Syncs(workload, network, self.env, self.log, folding)
        self.waiting = self.syncs.waiting

    def to_the_end(self, ended: simpy.Event) -> None:
        """Interleave SimPy and the network until all programs have ended, or nothing is left to wait for."""
        env, network = self.env, self.network
        while not ended.processed:
            step_ps = env.peek()
            if completions := network.advance(None if math.isinf(step_ps) else int(step_ps)):
                if completions[0].at_ps > LONGEST_PS:
                    raise _too_long()
                self._deliver(completions)
            elif step_ps <= LONGEST_PS:
                self.now_ps = int(step_ps)
                env.step()
            elif math.isinf(step_ps) and network.next_ps is None:
                return
            else:
                raise _too_long()

    def _deliver(self, completions: Iterable[Completion]) -> None:
        for completion in completions:
            self.streams.over(completion)
            event = self.waiting.pop((completion.handle, completion.party), None)
            if event is not None:
                event.come_in(completion.at_ps - self.now_ps)
            if (met := self.met.pop(completion.handle, None)) is not None:
                self.log.exchanges.append(met._replace(end_ps=completion.at_ps))
            if self.folding and completion.handle in self.moving:
                self.folding.over(self.moving.pop(completion.handle), completion.handle)

    def device_group(self, index: int) -> Steps:
        """One device group, walking its program: wait for the input, compute, hand on; then sync and update."""
        program = self.workload.programs[index]
        completions, turns, parts = program.completions(), program.turns(), self.parts[index]
        exchanges = self.exchanges[index] if self.exchanges else []
        self.syncs.begin(index)
        for number, action in enumerate(program.actions):
            self.position[index] = action
            part = parts.of(action)
            awaited, free_ps = -1, self.now_ps
            for moves, micro_batch in exchanges[number] if exchanges else ():
                yield from self._meet(index, moves, micro_batch)
            for move in () if exchanges else part.incoming:
                yield self._arrival(move, action.micro_batch)
                if self.now_ps > free_ps:
                    awaited, free_ps = self.numbers[move], self.now_ps
                del self.arrivals[move, action.micro_batch]
            yield from self._perform(index, part, number, action, completions.get(number), turns[number], awaited)
            if exchanges:  # what it has made leaves when it comes to the next action, if not later
                continue
            if self.folding:
                self.folding.stands(index, number + 1, 0, self.now_ps)
            sent = [self._hand_on(move, action.micro_batch) for move in part.outgoing]
            if sent and self.workload.blocking_sends:
                yield self.env.all_of(sent)
        for moves, micro_batch in exchanges[-1] if exchanges else ():
            yield from self._meet(index, moves, micro_batch)
        self.position[index] = "its gradient syncs"
        self.log.reached_ps[index] = self.now_ps
        yield self.env.all_of(self.syncs.ends(index))
        self.log.synced_ps[index] = self.now_ps
        yield from self._perform(index, parts.of(UPDATE), len(program.actions), UPDATE, None, 0, -1)
        self.position[index] = "its gathers of parameters"
        yield self.env.all_of(self.syncs.gather(index))
        self.log.ended_ps[index] = self.now_ps

    def _perform(
        self,
        index: int,
        part: Part,
        number: int,
        action: Action,
        completion: tuple[int, bool] | None,
        turn: int,
        awaited: int,
    ) -> Steps:
        """One action: as far as its links are surely quiet in one timeout, then on from where that is not sure."""
        body, course = part.body, part.course
        complete = course.completes(*completion) if completion and course.ready else ()
        announced = done = 0
        start_ps = now_ps = shift_ps = self.now_ps
        spans_ps = None if self.folding else course.spans_ps.copy()  # of all stops, once one has been walked
        while True:
            ahead = self._foldable(index, number, course, done, now_ps, shift_ps)
            while announced < len(complete) and complete[announced][1] <= ahead:
                sync, _, at_ps = complete[announced]
                self.syncs.release(sync, index, shift_ps + at_ps)
                announced += 1
            if ahead == len(course.stops):
                break
            at_ps = shift_ps + course.starts_ps[ahead]
            if now_ps < at_ps and self.folding and self.folding.may_be_alone(index):  # by then more is known
                yield self.env.timeout(at_ps - now_ps)
                done, now_ps = ahead, at_ps
                continue
            if spans_ps is None:
                spans_ps = course.spans_ps + shift_ps
            yield self._stop(course.stops[ahead], index, turn, at_ps)
            spans_ps[ahead] = at_ps, max(self.now_ps, at_ps)  # what is needed may have been there before
            now_ps = max(self.now_ps, at_ps + course.beside_ps[ahead])
            if now_ps > self.now_ps:
                yield self.env.timeout(now_ps - self.now_ps)
            done = ahead + 1
            shift_ps = now_ps - course.resume_ps[done]
            spans_ps[done:] = course.spans_ps[done:] + shift_ps
            self.walked.update(course.graphs(ahead, done))
        if now_ps < shift_ps + course.duration_ps:
            yield self.env.timeout(shift_ps + course.duration_ps - now_ps)
        self.performed[body] += 1
        if spans_ps is None:
            self.folded.add(body)
        self.log.action(index, action, start_ps, self.now_ps, awaited, spans_ps)

    def _foldable(self, index: int, number: int, course: Course, done: int, now_ps: int, shift_ps: int) -> int:
        """How many stops of the action surely run undisturbed, the first ``done`` included; no fetch does."""
        ahead = done
        if self.folding is None:
            return ahead
        self.folding.stands(index, number, course.least_ps[done], shift_ps + course.resume_ps[done])
        fetch = course.fetch_from(done)
        if done < fetch:
            quiet_ps = self.folding.quiet_until_ps(index, now_ps)
            ahead = bisect_right(course.ends_ps, quiet_ps - shift_ps, lo=done, hi=fetch)
        if ahead == len(course.stops):
            self.folding.stands(index, number, course.least_total_ps, shift_ps + course.duration_ps)
        elif ahead > done:
            self.folding.stands(index, number, course.least_ps[ahead], shift_ps + course.resume_ps[ahead])
        return ahead

    def _stop(self, stop: TransferGraph | Fetch, index: int, turn: int, at_ps: int) -> Due:
        """Take part in a stop from ``at_ps`` on; the network is told ahead, so that only its end is awaited."""
        if isinstance(stop, Fetch):
            return self.syncs.fetch(stop.sync + stop.every * turn, index, at_ps)
        handle = self.network.submit(stop)
        done = self.waiting[handle, 0] = Due(self.env)
        self.network.release(handle, 0, at_ps)
        return done

    def _meet(self, index: int, moves: Iterable[Move], micro_batch: int) -> Steps:
        """Come to exchanges with other stages, each of which begins when both sides have, until all are over."""
        over = []
        for move in moves:
            place = (move, micro_batch)
            if place in self.came:
                self.came.remove(place)
                over.append(self._hand_on(move, micro_batch, index))
            else:
                self.came.add(place)
                over.append(self._arrival(move, micro_batch))
        yield self.env.all_of(over)
        for move in moves:
            if move.target == index:
                del self.arrivals[move, micro_batch]

    def _hand_on(self, move: Move, micro_batch: int, last: int = -1) -> Due:
        """Submit what now goes to another stage; its arrival there. ``last``: who came last, if both sides wait."""
        handle = self.network.submit(move.graph, "hand_over")
        if last >= 0:
            self.met[handle] = Exchange(self.numbers[move], micro_batch, last, self.now_ps, 0)
        arrival = self.waiting[handle, 0] = self._arrival(move, micro_batch)
        if self.folding:
            self.folding.submitted(move, handle, self.now_ps)
            self.moving[handle] = move
        self.network.release(handle, 0, self.now_ps)
        return arrival

    def _arrival(self, move: Move, micro_batch: int) -> Due:
        """What the target waits for; made by whichever side comes first."""
        arrival = self.arrivals.get((move, micro_batch))
        if arrival is None:
            arrival = self.arrivals[move, micro_batch] = Due(self.env)
        return arrival
