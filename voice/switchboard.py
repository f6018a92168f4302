"""The calls of a replica: as many as it has places, one more is told that it is busy."""

import asyncio
import itertools
import os
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from loguru import logger
from pipecat.transports.base_transport import BaseTransport

from configs.voice import VoiceConfig
from voice.call import run_call
from voice.services import Services
from voice.webrtc import Offer, answer_of, connect, hang_up, hang_up_when_lost, transport_of

BUSY = "All lines are busy. Please try again in a moment."


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

    async def call(self, transport: BaseTransport) -> None:
        """One call, for a holder of a place; returns when it is over. Cancelling hangs up."""
        call_id = f"call-{os.getpid()}-{next(self._numbers)}"
        task = self._start(run_call(transport, self.config, self._services, self.allocation_ms, call_id), call_id)
        logger.info("{} begins", call_id)
        try:
            await task
        finally:
            task.cancel()
            logger.info("{} ended", call_id)

    async def answer(self, offer: Offer) -> dict[str, str]:
        """Answer a WebRTC offer; its call takes a place from here on. Raises BusyError, OfferError."""
        answered: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._start(self._webrtc_call(offer, answered), "webrtc call")
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
                connection = await connect(offer, self.config.ice_servers)
                watch = asyncio.create_task(hang_up_when_lost(connection))
                try:
                    if not answered.done():
                        answered.set_result(answer_of(connection))
                    await self.call(transport_of(connection))
                finally:
                    watch.cancel()
                    await hang_up(connection)
        except Exception as error:
            if answered.done():
                raise
            answered.set_exception(error)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        task = asyncio.create_task(work, name=name)
        self._calls.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._calls.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("{} failed: {!r}", task.get_name(), error)
