"""The deploy part's long check: three nodes under load, upgraded, scaled, broken; who saw what, and how long.

The application is the stand-in, at a steady rate of requests of 0.2 s each, from another machine through the head,
which has no replica of its own and so asks those of both workers.
"""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster import Cluster, cluster
from tests.support.ship_stand_in import code
from tests.support.stand_in_fleet import CPU, Load, replica_nodes, replica_pids, ship, version
from tests.verify import suite
from tests.verify.section import Part

BEFORE_S, AFTER_S, PATIENCE_S = 5, 5, 180
HANG_S = 30
"""A request without an answer by then counts as one that hangs."""


@dataclass(frozen=True)
class Event:
    """Something that was done to the fleet, and what callers saw of it."""

    name: str
    requests: int
    failures: tuple[float, ...]
    """When, in seconds after the event."""
    recovered_s: float
    """Until the fleet was again as it should be."""
    kinds: tuple[str, ...]
    may_fail: bool

    @property
    def row(self) -> str:
        last = f"{max(self.failures):.1f}" if self.failures else "–"
        kinds = ", ".join(self.kinds) or "–"
        return f"| {self.name} | {self.requests} | {len(self.failures)} | {last} | {self.recovered_s:.1f} | {kinds} |"


class Watched:
    """What `event` gives: set when the fleet is whole again."""

    def __init__(self) -> None:
        self.begun_s = time.monotonic()
        self.recovered_s = float("nan")

    def recovered(self) -> None:
        self.recovered_s = time.monotonic() - self.begun_s


@contextmanager
def event(
    fleet: Cluster, events: list[Event], say: Callable[[str], None], name: str, may_fail: bool = False
) -> Iterator[Watched]:
    """Load from before the event until after it; adds what was seen to `events`."""
    with Load(fleet, fleet.head.address) as load:
        time.sleep(BEFORE_S)
        watched = Watched()
        yield watched
        time.sleep(AFTER_S)
    failures = [(begun_s - watched.begun_s, what) for begun_s, what in load.answers if isinstance(what, str)]
    kinds = tuple(dict.fromkeys(what.split("(")[0][:60] for _, what in failures))
    times = tuple(seconds for seconds, _ in failures)
    seen = Event(name, len(load.answers), times, watched.recovered_s, kinds, may_fail)
    events.append(seen)
    say(seen.row)


def run(fleet: Cluster, parcel: Path, say: Callable[[str], None]) -> list[Event]:
    """Everything that is done to the fleet, in turn."""
    events: list[Event] = []
    two, three = version("1"), version("2", replicas=3)
    _serves(ship(fleet, parcel, two))
    with event(fleet, events, say, "rolling upgrade, two replicas") as watched:
        _serves(ship(fleet, parcel, version("2")))
        watched.recovered()
    with event(fleet, events, say, "a version that cannot start") as watched:
        outcome = ship(fleet, parcel, version("3", fails=True))
        assert outcome["outcome"] == "rolled back" and outcome["serving"], outcome
        watched.recovered()
    with event(fleet, events, say, "out, from two replicas to three") as watched:
        _serves(ship(fleet, parcel, three))
        watched.recovered()
    with event(fleet, events, say, "a replica killed", may_fail=True) as watched:
        lost = min(replica_pids(fleet))
        os.kill(lost, signal.SIGKILL)
        _until(fleet, lambda: len(replica_pids(fleet) - {lost}) == 3, "three replicas")
        watched.recovered()
    with event(fleet, events, say, "a worker node killed; the other has room for one replica less", may_fail=True) as w:
        fleet.kill("two")
        left = fleet.nodes["one"].address
        _until(fleet, lambda: replica_nodes(fleet) == [left] * 2, "two replicas on the node that is left")
        w.recovered()
    with event(fleet, events, say, "a node added in its place") as watched:
        fleet.add("three", 2, CPU)
        _until(fleet, lambda: len(replica_pids(fleet)) == 3, "three replicas")
        watched.recovered()
    with event(fleet, events, say, "in, from three replicas to one") as watched:
        _serves(ship(fleet, parcel, version("2", replicas=1)))
        _until(fleet, lambda: len(replica_pids(fleet)) == 1, "one replica")
        watched.recovered()
    return events


def _serves(outcome: dict[str, object]) -> None:
    assert outcome["outcome"] == "serving", outcome


def _until(fleet: Cluster, done: Callable[[], bool], what: str) -> None:
    fleet.wait_for(done, what, PATIENCE_S)


def verify(say: Callable[[str], None]) -> Part:
    """A quarter of an hour. Floors: planned changes fail no request; after a kill the failures end; nothing hangs."""
    with tempfile.TemporaryDirectory() as folder, cluster() as fleet:
        fleet.add("head", cpus=0)
        fleet.add("one", 2, CPU)
        fleet.add("two", 2, CPU)
        events = run(fleet, code(Path(folder)), say)
    outcomes = suite.run(say, "deploy/test_cluster.py", "deploy/test_product.py")
    short = suite.short(outcomes)
    short += [
        f"{seen.name}: {len(seen.failures)} of {seen.requests} requests failed"
        for seen in events
        if seen.failures and not seen.may_fail
    ]
    short += [
        f"{seen.name}: the last failure came {max(seen.failures):.0f} s after it"
        for seen in events
        if seen.failures and seen.may_fail and max(seen.failures) > HANG_S
    ]
    head = "| what was done | requests | failed | last failure, s after | whole again, s after | failures |"
    table = "\n".join([head, "|---|---|---|---|---|---|", *(seen.row for seen in events)])
    return Part(
        "A head and two workers of two CPUs, each a network namespace of this machine, with token authentication; ten "
        'requests a second of 0.2 s each, from a further one through the head. "Whole again" is when Ray Serve counts '
        "the replicas that are wanted, and for a deploy when the command ends.\n\n"
        f"{table}\n\nA cluster deployed to, with a stand-in and with the product: {suite.passed(outcomes)}.",
        short,
    )
