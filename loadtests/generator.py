"""The load generator: a process of its own, in which locust runs our users.

    python -m loadtests.generator RUN.json                       alone, or as master of the workers it starts
    python -m loadtests.generator RUN.json --worker 0 --port 5557

RUN.json is written by loadtests.run. Prints a JSON line of progress twice a second; the samples go to the journal
beside RUN.json. SIGINT and SIGTERM end the run: what is under way is recorded as interrupted.
"""

import locust  # isort: skip  # first: it patches sockets, threads and subprocesses

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gevent
from gevent.event import Event
from locust.env import Environment
from locust.runners import STATE_STOPPED

from loadtests.backlog import only_grows
from loadtests.callers_client import Callers
from loadtests.journal import Journal
from loadtests.llm_client import Target
from loadtests.ports import free_port
from loadtests.priority import take_precedence
from loadtests.schedule import Schedule, read_plans
from loadtests.users import Arrival, LlmArrival, Pacer, VoiceArrival

PROGRESS_S = 0.5
WORKERS_READY_S = 60


class OnePacerEach(locust.LoadTestShape):
    """The schedule paces the run, so all that locust's shape has to say is one pacer a worker, until it is over."""

    def __init__(self, workers: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.workers, self.over = workers, False

    def tick(self) -> "tuple[int, float, list[type[locust.User]]] | None":
        return None if self.over else (self.workers, float(self.workers), [Pacer])


class Generator:
    """One process of the run."""

    def __init__(self, settings: dict[str, Any], folder: Path, worker: int | None, port: int) -> None:
        self.settings, self.folder, self.worker, self.port = settings, folder, worker, port
        self.stopping = Event()
        self.ended_because = ""
        self.finished_workers = 0
        self.in_flight: list[int] = []
        self.shape = OnePacerEach(settings["workers"])
        arrival: type[Arrival] = LlmArrival if settings["user"] == "llm" else VoiceArrival
        self.environment = Environment(
            user_classes=[Pacer, arrival], shape_class=None if worker is not None else self.shape,
            host=settings["url"], catch_exceptions=False,
        )  # fmt: skip
        self.environment.events.user_error.add_listener(self._on_user_error)  # type: ignore[no-untyped-call]
        self.schedule: Schedule | None = None
        if worker is not None or settings["workers"] == 1:
            number = worker or 0
            plans = read_plans(folder / "plans.jsonl", number, settings["workers"])
            self.schedule = Schedule(plans, Journal(folder, number), settings["give_up_after_s"])
            Pacer.schedule = Arrival.schedule = self.schedule
            Pacer.arrival, Arrival.settings = arrival, settings
            # The resolver's threads start at the first look-up: not in the first request's time.
            Target(settings["url"]).resolve()
            if settings["user"] == "voice":
                VoiceArrival.callers = Callers(settings["url"], folder / "calls", settings["reply_timeout_s"])

    def run(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            gevent.signal_handler(number, self.stopping.set)
        try:
            if self.worker is not None:
                self._work()
            elif self.settings["workers"] > 1:
                self._lead()
            else:
                self._watch(self.environment.create_local_runner())
        finally:
            if self.settings["user"] == "voice" and self.schedule is not None:
                for ended in VoiceArrival.callers.close():
                    self.schedule.record(ended, ended["outcome"])

    def _watch(self, runner: Any) -> None:
        """Start, report and end a run from its leading process."""
        web = None
        if self.settings["web_port"]:
            web = self.environment.create_web_ui("127.0.0.1", self.settings["web_port"])
        runner.start_shape()
        begun, parent, next_look_s = time.monotonic(), os.getppid(), 1.0
        while not self._over() and not self.stopping.is_set() and os.getppid() == parent:
            self.stopping.wait(PROGRESS_S)
            at_s = time.monotonic() - begun
            total = self.environment.stats.total
            arrivals = (
                runner.user_count - self.settings["workers"] if self.schedule is None else self.schedule.in_flight
            )
            _print(
                at_s=at_s, begun_s=self.schedule.begun if self.schedule else None, requests=total.num_requests,
                failures=total.num_failures, in_flight=max(arrivals, 0),
            )  # fmt: skip
            while at_s >= next_look_s:
                self.in_flight.append(max(arrivals, 0))
                next_look_s += 1
            if self.settings["stop_when_growing"] and only_grows(self.in_flight):
                self.ended_because = "the queue only grows"
            if runner.state == STATE_STOPPED:
                self.ended_because = self.ended_because or "stopped on locust's page"
        reason = self.ended_because or (self.schedule.ended_because if self.schedule else "")
        if self.stopping.is_set() or os.getppid() != parent:
            reason = "interrupted"
        self.shape.over = True
        runner.quit()
        if web is not None:
            web.stop()  # type: ignore[no-untyped-call]
        _print(ended=reason)

    def _over(self) -> bool:
        if self.ended_because:
            return True
        if self.schedule is None:
            return self.finished_workers == int(self.settings["workers"])
        return self.schedule.finished or bool(self.schedule.ended_because)

    def _lead(self) -> None:
        port = free_port()
        runner = self.environment.create_master_runner("127.0.0.1", port)
        runner.register_message("part-ended", self._on_part_ended)
        command = [sys.executable, "-m", "loadtests.generator", str(self.folder / "run.json"), "--port", str(port)]
        workers = [subprocess.Popen([*command, "--worker", str(i)]) for i in range(self.settings["workers"])]
        try:
            deadline = time.monotonic() + WORKERS_READY_S
            while len(runner.clients.ready) < len(workers):
                if any(worker.poll() is not None for worker in workers) or time.monotonic() > deadline:
                    raise RuntimeError("a worker did not start")
                gevent.sleep(0.1)
            guard = gevent.spawn(self._guard, workers)
            self._watch(runner)
            guard.kill()
        finally:
            _end(workers)

    def _guard(self, workers: "list[subprocess.Popen[bytes]]") -> None:
        """A worker that dies takes its share of the load along: the run is over."""
        while all(worker.poll() is None for worker in workers) or self._over():
            gevent.sleep(0.2)
        self.ended_because = "a worker died"

    def _work(self) -> None:
        assert self.schedule is not None
        runner = self.environment.create_worker_runner("127.0.0.1", self.port)
        parent, told = os.getppid(), False
        while not runner.greenlet.join(timeout=0.2) and os.getppid() == parent:
            over = self.schedule.finished or self.schedule.ended_because or self.ended_because
            if over and not told:
                told = True
                runner.send_message("part-ended", {"because": self.schedule.ended_because or self.ended_because})

    def _on_part_ended(self, environment: Environment, msg: Any) -> None:
        self.finished_workers += 1
        self.ended_because = self.ended_because or msg.data["because"]

    def _on_user_error(self, user_instance: Any, exception: BaseException, tb: Any) -> None:
        """An error of ours, not of the server: nothing that such a run says can be trusted."""
        self.ended_because = f"the generator failed: {type(exception).__name__}: {exception}"


def _end(processes: "list[subprocess.Popen[bytes]]") -> None:
    for process in processes:
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()


def _print(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("settings", type=Path)
    parser.add_argument("--worker", type=int)
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    take_precedence()
    settings = json.loads(arguments.settings.read_text(encoding="utf-8"))
    Generator(settings, arguments.settings.parent, arguments.worker, arguments.port).run()


if __name__ == "__main__":
    main()
