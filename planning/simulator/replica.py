"""One engine, step by step: continuous batching with chunked prefill, as vLLM schedules it.

A step gives every decoding sequence one token and fills the rest of its token budget with prompts: those begun
first, then the waiting ones by priority and arrival. Steps without a prompt differ in nothing but the clock, so a
whole stretch of them is one event: decode advances by a counter of steps, and a sequence is done when the counter
reaches the step of its last token. An arrival ends the stretch at the next step's boundary, not before.
"""

import heapq
import math
from collections.abc import Callable
from typing import Protocol

from planning.simulator.cache import KvMemory
from planning.simulator.engine import Engine
from planning.simulator.rates import Rates
from planning.simulator.request import Request


class StepLog(Protocol):
    """Where a replica tells how long its steps took."""

    def steps(self, step_s: float, tokens: int) -> None:
        """`tokens` output tokens (sequences times steps) came `step_s` after their predecessors."""


class Replica:
    """A replica of type `kind` that computes what `submit` hands it and calls back at first token and at the end."""

    def __init__(
        self,
        engine: Engine,
        number: int,
        kind: int,
        rates: Rates,
        max_sequences: int,
        token_budget: int,
        block_tokens: int,
        adapter_slots: int,
        adapter_load_s: float,
        log: StepLog,
        on_first_token: Callable[[Request], None],
        on_finish: Callable[[Request], None],
    ) -> None:
        self.engine, self.number, self.kind, self.rates = engine, number, kind, rates
        self.max_sequences, self.token_budget = max_sequences, token_budget
        self.memory = KvMemory(rates.kv_capacity_tokens, block_tokens)
        self.adapter_slots, self.adapter_load_s = adapter_slots, adapter_load_s
        self.adapters: dict[int, None] = {}  # resident, the least recently used first
        self.log, self.on_first_token, self.on_finish = log, on_first_token, on_finish
        self.started_s = 0.0
        self.ended_s: float | None = None
        self.draining = False
        self.busy_s = 0.0  # time with any work at all, up to the last event
        self._told_s = 0.0
        self.callers = 0  # requests that are not batch's, waiting and running
        self.callers_s = 0.0  # time with any of them, up to callers_since_s
        self.callers_since_s = 0.0
        self._told_callers_s = 0.0
        self.queued_prompt_tokens = self.queued_output_tokens = 0  # of the callers' waiting requests
        self.waiting: list[tuple[int, float, int, Request]] = []
        self.prefilling: list[Request] = []
        self.decoding: list[tuple[int, int, Request]] = []  # by the step of the last token
        self._step = 0
        self._since_s = 0.0  # of the stretch or step under way
        self._step_s = 0.0
        self._event = 0  # the number of the event that counts; others are stale
        self._stretch = False  # a stretch of pure decode is under way, to its end
        self._idle = True
        self._blocked: Request | None = None  # the head of `waiting`, if memory is what it waits for

    @property
    def ongoing(self) -> int:
        """Requests waiting and running."""
        return len(self.waiting) + len(self.prefilling) + len(self.decoding)

    def requests(self) -> list[Request]:
        """All that are waiting or running."""
        return [w[-1] for w in self.waiting] + self.prefilling + [d[-1] for d in self.decoding]

    def caller(self, change: int) -> None:
        """One of the callers' requests comes (1) or goes (-1)."""
        if self.callers:
            self.callers_s += self.engine.now_s - self.callers_since_s
        self.callers_since_s = self.engine.now_s
        self.callers += change

    def callers_since_last_s(self) -> float:
        """Seconds with a caller's request since this was last asked."""
        self.caller(0)
        since_s, self._told_callers_s = self.callers_s - self._told_callers_s, self.callers_s
        return since_s

    def busy_since_last_s(self) -> float:
        """Seconds with any work since this was last asked."""
        busy_s = self.busy_s + (0.0 if self._idle else self.engine.now_s - self._since_s)
        since_s, self._told_s = busy_s - self._told_s, busy_s
        return since_s

    def submit(self, request: Request) -> None:
        """Queue the request; it fits in this replica's memory."""
        heapq.heappush(self.waiting, (request.priority, request.arrival_s, request.number, request))
        if request.tenant >= 0:
            self.queued_prompt_tokens += request.prompt_tokens
            self.queued_output_tokens += request.output_tokens
        if self._idle:
            self._plan()
        elif self._stretch and self._startable():
            # The stretch ends with the step that is being computed.
            done = math.ceil((self.engine.now_s - self._since_s) / self._step_s - 1e-9)
            self._stretch = False
            self._schedule(self._since_s + done * self._step_s, self._end_stretch, done)

    def stop(self) -> list[Request]:
        """The replica dies: what was on it, first come first. It computes nothing more."""
        self._event += 1
        lost = sorted(self.requests(), key=lambda r: r.number)
        self.waiting, self.prefilling, self.decoding = [], [], []
        self.queued_prompt_tokens = self.queued_output_tokens = 0
        if not self._idle:
            self.busy_s += self.engine.now_s - self._since_s
        self._idle, self._stretch = True, False
        return lost

    def _startable(self) -> bool:
        """Whether the first of the waiting may be able to start before a running one ends."""
        return (
            len(self.decoding) + len(self.prefilling) < self.max_sequences and self.waiting[0][-1] is not self._blocked
        )

    def _schedule(self, time_s: float, callback: Callable[[int, int], None], argument: int) -> None:
        self._event += 1
        self.engine.at(time_s, callback, self._event, argument)

    def _plan(self) -> None:
        """At a step's boundary: start the next step, a stretch of steps, or nothing."""
        now_s, decoding = self.engine.now_s, self.decoding
        self._idle = self._stretch = False  # what a callback submits meanwhile only queues
        while decoding and decoding[0][0] <= self._step:
            self._finish(heapq.heappop(decoding)[-1])
        chunks, prefill_s = self._fill(self.token_budget - len(decoding))
        self._since_s = now_s
        base_s, decode_s = self.rates.itl_base_s, self.rates.itl_per_sequence_s * len(decoding)
        if chunks:
            self._step_s = max(base_s, prefill_s) + decode_s
            self._schedule(now_s + self._step_s, self._end_step, len(decoding))
        elif decoding:
            self._step_s = base_s + decode_s
            steps = decoding[0][0] - self._step
            self._stretch = True
            self._schedule(now_s + steps * self._step_s, self._end_stretch, steps)
        else:
            self._idle = True

    def _fill(self, budget: int) -> tuple[bool, float]:
        """Give up to `budget` prompt tokens to the next step; whether any, and the seconds they take."""
        seconds, any_chunk = 0.0, False
        for request in self.prefilling:
            if budget <= 0:
                break
            tokens = min(budget, request.prompt_tokens - request.computed_tokens)
            seconds += self.rates.prefill_s(request.computed_tokens, request.computed_tokens + tokens)
            request.computed_tokens += tokens
            budget -= tokens
            any_chunk = True
        waiting = self.waiting
        self._blocked = None
        while waiting and budget > 0 and len(self.prefilling) + len(self.decoding) < self.max_sequences:
            request = waiting[0][-1]
            hit = self.memory.admit(request)
            if hit is None:
                self._blocked = request
                break
            heapq.heappop(waiting)
            if request.tenant >= 0:
                self.queued_prompt_tokens -= request.prompt_tokens
                self.queued_output_tokens -= request.output_tokens
            tokens = min(budget, request.prompt_tokens - hit)
            request.cached_tokens = hit
            request.computed_tokens = hit + tokens
            seconds += self.rates.prefill_s(hit, hit + tokens) + self._load_adapter(request.adapter)
            budget -= tokens
            self.prefilling.append(request)
            any_chunk = True
        return any_chunk, seconds

    def _load_adapter(self, adapter: int) -> float:
        """Seconds until the adapter is in a slot: the engine waits for it, and so does the step."""
        if not adapter:
            return 0.0
        resident = adapter in self.adapters
        self.adapters.pop(adapter, None)
        self.adapters[adapter] = None
        if len(self.adapters) > self.adapter_slots:
            del self.adapters[next(iter(self.adapters))]
        return 0.0 if resident else self.adapter_load_s

    def _end_step(self, event: int, sequences: int) -> None:
        if event != self._event:
            return
        self.busy_s += self._step_s
        self._step += 1
        if sequences:
            self.log.steps(self._step_s, sequences)
        unfinished = []
        for request in self.prefilling:
            if request.computed_tokens < request.prompt_tokens:
                unfinished.append(request)
                continue
            request.first_token_s = self.engine.now_s
            self.on_first_token(request)
            last = self._step + request.output_tokens - 1
            heapq.heappush(self.decoding, (last, request.number, request))
        self.prefilling = unfinished
        self._plan()

    def _end_stretch(self, event: int, steps: int) -> None:
        if event != self._event:
            return
        self.busy_s += steps * self._step_s
        self._step += steps
        self.log.steps(self._step_s, steps * len(self.decoding))
        self._plan()

    def _finish(self, request: Request) -> None:
        request.finish_s = self.engine.now_s
        self.memory.release(request)
        self.on_finish(request)
