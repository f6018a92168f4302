"""The job's inference stage: an actor that asks the engine about each line and journals every finished row.

A row is finished here, not when Ray Data hands its block on: what is in flight between stages when a driver dies would
be paid for twice. Rows that another attempt finished are passed over.
"""

import asyncio
import os
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from batch import results
from batch.engine import Broken, Engine, Refused, Tier
from batch.files import Contents
from batch.gate import Fares, Orders
from batch.journal import Entry, Finished, Segment
from batch.rows import Request
from batch.window import requests_of

ASK_EVERY_S = 0.1
MAX_PAUSE_S = 15.0


@dataclass(frozen=True)
class InferenceSpec:
    """What an inference actor needs. `folder`: the journal's."""

    files_url: str
    folder: str
    last_row: int
    endpoint: str
    tenant: str
    tier: Tier
    attempts: int


class Inference:
    """Ray Data calls it with blocks, several at a time in one event loop; it says how many rows each finished."""

    def __init__(self, spec: InferenceSpec, gate: Any) -> None:
        """`gate`: the handle of the actor that holds batch.gate.Gate."""
        give_way()
        self._spec, self._gate = spec, gate
        self._name = f"{os.getpid()}-{uuid.uuid4().hex[:6]}"
        contents = Contents(spec.files_url)
        self._segment = Segment(contents, spec.folder)
        self._finished = Finished(contents, spec.folder, spec.last_row)
        self._engine: Engine | None = None
        self._orders = Orders(0, False)
        self._changed = asyncio.Condition()
        self._in_flight: set[asyncio.Task[Any]] = set()
        self._refusals = self._failures = 0
        self._trouble = ""
        self._asking: asyncio.Task[None] | None = None
        self._lost: BaseException | None = None

    async def __call__(self, block: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        if self._engine is None:  # in the loop that it is used in
            self._engine = self._spec.tier.engine(self._spec.tenant)
            self._asking = asyncio.create_task(self._ask())
        await asyncio.to_thread(self._finished.refresh, self._segment.path)
        names = list(block)
        lines = [dict(zip(names, values, strict=True)) for values in zip(*block.values(), strict=True)]
        tasks = [asyncio.create_task(self._finish(line)) for line in lines]
        try:
            finished = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        yield {"finished": np.array([sum(finished)])}

    async def _finish(self, line: dict[str, Any]) -> int:
        """Bring one line's rows to their end; how many."""
        requests = [one for one in requests_of(line) if not self._finished.rows[one.row]]
        if not requests:
            return 0
        if requests[0].refusal:
            entries = results.refused(requests, requests[0].refusal)
        else:
            entries = await self._answer(requests)
        if entries:
            self._append(entries)
        return len(entries)

    def _append(self, entries: list[Entry]) -> None:
        self._segment.append(*entries)
        for entry in entries:
            self._finished.rows[entry.row] = True

    async def _answer(self, requests: list[Request]) -> list[Entry]:
        """The engine's word on a line, or nothing where the job is stopped. Takes its place and gives it back."""
        assert self._engine is not None
        pause_s, tries = 0.5, 0
        while await self._place():
            asked = asyncio.create_task(self._engine.answer(self._spec.endpoint, requests[0].sent()))
            self._in_flight.add(asked)
            try:
                return results.answered(requests, await asked)
            except asyncio.CancelledError:
                if not asked.cancelled():  # it is this that is cancelled, not the question
                    asked.cancel()
                    raise
                continue  # the callers want their places back
            except Refused as error:
                self._refusals += 1
                self._trouble = str(error)
                wait_s = max(error.after_s, pause_s)
            except Broken as error:
                self._failures += 1
                self._trouble = str(error)
                tries += 1
                if tries >= self._spec.attempts:
                    return results.unanswered(requests, "engine_failed", f"{tries} tries; the last: {error}")
                wait_s = pause_s
            finally:
                self._in_flight.discard(asked)
                async with self._changed:
                    self._changed.notify()
            await asyncio.sleep(wait_s * random.uniform(0.5, 1))
            pause_s = min(2 * pause_s, MAX_PAUSE_S)
        return []

    async def _place(self) -> bool:
        """Wait for a place in flight; False if the job is stopped."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: self._orders.stop or self._lost or len(self._in_flight) < self._orders.concurrency
            )
        if self._lost:
            raise self._lost
        return not self._orders.stop

    async def _ask(self) -> None:
        """Ask for orders as long as this actor lives."""
        while True:
            fares = Fares(len(self._in_flight), self._refusals, self._failures, self._trouble)
            self._refusals = self._failures = 0
            self._trouble = ""
            try:
                self._orders = await self._gate.ask.remote(self._name, fares)
                self._segment.tick()
            except Exception as error:  # noqa: BLE001  # the driver is gone, or the disk: whatever it is, nothing goes on
                self._lost = error
            if self._orders.concurrency == 0 or self._orders.stop:
                for task in list(self._in_flight):
                    task.cancel()
            async with self._changed:
                self._changed.notify_all()
            if self._lost:
                return
            await asyncio.sleep(ASK_EVERY_S)


def give_way() -> None:
    """Let the other processes on this machine go first."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 19)
