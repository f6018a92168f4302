"""The calls of a replica: as many as it has places, one more is told that it is busy."""

import asyncio
import itertools
import os
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from loguru import logger
from pipecat.transports.base_transport import BaseTransport

from configs.voice import VoiceConfig
from voice.call import run_call
from voice.ice import peers_servers
from voice.services import Services
from voice.webrtc import Offer, answer_of, connect, hang_up, transport_of, until_lost

BUSY = "All lines are busy. Please try again in a moment."
ENDING_S = 3


class BusyError(RuntimeError):
    """Every place is taken. A retry later may help."""

    def __init__(self) -> None:
        super().__init__(BUSY)


class Switchboard:
    """Takes calls, and ends them all when it closes."""

    def __init__(self, config: VoiceConfig, services: Services, allocation_ms: dict[str, float]) -> None:
        self.config, self.allocation_ms = config, allocation_ms
        self._services = services
        self._taken = 0
        self._calls: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)

    @property
    def calls(self) -> int:
        """How many places are taken."""
        return self._taken

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place for the length of a `with`. Raises BusyError."""
        if self._taken >= self.config.calls_per_replica:
            raise BusyError
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1

    async def call(self, transport: BaseTransport, greet_at_once: bool = False) -> None:
        """One call, for a holder of a place; returns when it is over. Cancelling hangs up."""
        task = self._start(self._serve(transport, greet_at_once))
        try:
            await task
        finally:
            task.cancel()

    async def answer(self, offer: Offer) -> dict[str, str]:
        """Answer a WebRTC offer; its call takes a place from here on. Raises BusyError, OfferError."""
        answered: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._start(self._webrtc_call(offer, answered))
        return await answered

    async def close(self) -> None:
        """Hang up on everybody."""
        tasks = list(self._calls)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _webrtc_call(self, offer: Offer, answered: "asyncio.Future[dict[str, str]]") -> None:
        try:
            with self.place():
                connection = await connect(offer, peers_servers(self.config.ice_servers, time.time()))
                if not answered.done():
                    answered.set_result(answer_of(connection))
                call = asyncio.create_task(self._serve(transport_of(connection)))
                lost = asyncio.create_task(until_lost(connection))
                try:
                    await asyncio.wait([call, lost], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    lost.cancel()
                    await hang_up(connection)
                    await _ended(call)
        except Exception as error:
            if answered.done():
                raise
            answered.set_exception(error)

    async def _serve(self, transport: BaseTransport, greet_at_once: bool = False) -> None:
        call_id = f"call-{os.getpid()}-{next(self._numbers)}"
        logger.info("{} begins", call_id)
        try:
            await run_call(transport, self.config, self._services, self.allocation_ms, call_id, greet_at_once)
        finally:
            logger.info("{} ended", call_id)

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._calls.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._calls.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a call failed: {!r}", error)


async def _ended(call: "asyncio.Task[None]") -> None:
    """A call whose connection is closed ends by itself; one that does not is cancelled. Raises what it raised."""
    await asyncio.wait([call], timeout=ENDING_S)
    call.cancel()
    [outcome] = await asyncio.gather(call, return_exceptions=True)
    if isinstance(outcome, Exception):
        raise outcome
