"""Our users for locust. The pacer starts an arrival at each due moment, however many are still under way.

Imported by the generator's process alone: importing locust makes the whole process cooperative.
"""

from typing import Any, ClassVar

import gevent
from gevent import GreenletExit
from locust import User, task
from locust.exception import StopUser

from loadtests.callers_client import Callers
from loadtests.llm_client import Target, stream
from loadtests.sample import LlmSample
from loadtests.schedule import Schedule

AWAKE_S = 0.0015


class Pacer(User):
    """One a worker. Never waits for an answer."""

    schedule: ClassVar[Schedule]
    arrival: ClassVar["type[Arrival]"]

    @task
    def pace(self) -> None:
        schedule = self.schedule
        if schedule.begun is not None:
            raise StopUser
        schedule.begin()
        for plan in schedule.plans:
            wait_until_due(schedule, plan["due_s"])
            self.arrival(self.environment, plan).start(self.environment.runner.user_greenlets)
            schedule.in_flight += 1
        while schedule.in_flight:
            gevent.sleep(0.05)
        schedule.finished = True
        raise StopUser


def wait_until_due(schedule: Schedule, due_s: float) -> None:
    """Timers fire up to a millisecond or two late: the last stretch is waited out awake, letting others run."""
    gevent.sleep(max(0.0, schedule.until_due_s(due_s) - AWAKE_S))
    while schedule.until_due_s(due_s) > 0:
        gevent.sleep(0)


class Arrival(User):
    """One conversation or call: performs its plan once."""

    abstract = True
    schedule: ClassVar[Schedule]
    settings: ClassVar[dict[str, Any]]

    def __init__(self, environment: Any, plan: dict[str, Any] | None = None) -> None:
        super().__init__(environment)
        self.plan = plan or {}

    @task
    def arrive(self) -> None:
        try:
            self.perform()
        finally:
            self.schedule.in_flight -= 1
        raise StopUser

    def perform(self) -> None:
        """What an arrival does. (Locust's metaclass leaves no room for an abstract method.)"""
        raise NotImplementedError

    def record(self, sample: dict[str, Any], outcome: str, name: str, response_ms: float | None) -> None:
        """Keep the sample, and show locust's page the same figure."""
        self.schedule.record(sample, outcome)
        self.environment.events.request.fire(
            request_type=self.settings["user"],
            name=name,
            response_time=response_ms or 0.0,
            response_length=0,
            exception=None if outcome in ("ok", "interrupted") else RuntimeError(outcome),
            context={},
        )


class LlmArrival(Arrival):
    """A conversation: each request takes along what was said before."""

    def perform(self) -> None:
        history = list(self.plan["opening"])
        due_s = self.plan["due_s"]
        target = Target(self.settings["url"])
        for number, turn in enumerate(self.plan["turns"]):
            due_s += turn["think_s"]
            wait_until_due(self.schedule, due_s)
            history += turn["messages"]
            tenant, model = self.plan["tenant"], self.plan["model"]
            sample = LlmSample(self.plan["index"], number, due_s, tenant=tenant, model=model)
            body = {**self.settings["body"], "model": model, "messages": history, "max_tokens": turn["max_tokens"]}
            try:
                reply = stream(
                    target, body, self.settings["headers"][tenant], sample, self.settings["timeout_s"],
                    self.schedule.now_s,
                )  # fmt: skip
            except GreenletExit:
                sample.outcome, sample.detail = "interrupted", "the run was stopped"
                raise
            finally:
                first = None if sample.first_token_s is None else (sample.first_token_s - due_s) * 1000
                self.record(sample.document(), sample.outcome, "due to first token", first)
            if not sample.good:
                return
            history.append({"role": "assistant", "content": reply})
            due_s = sample.ended_s


class VoiceArrival(Arrival):
    """A call. The callers' process speaks and listens: real-time audio wants a loop of its own."""

    callers: ClassVar[Callers]

    def perform(self) -> None:
        assert self.schedule.begun is not None
        sample = self.callers.call({**self.plan, "begun": self.schedule.begun})
        self.record(sample, sample["outcome"], "call", (sample["ended_s"] - sample["due_s"]) * 1000)
