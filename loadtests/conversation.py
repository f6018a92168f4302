"""A scripted conversation: each clip in turn, waiting for the greeting and for each reply's end."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

from loadtests.call import Call, Event
from loadtests.turns import TurnResult, turn_result
from loadtests.wav import Clip

REPLY_TIMEOUT_S = 30
GREETING_STARTS_S = 3
PAUSE_S = 0.4
WEBSOCKET_SLACK_MS = 40


async def converse(call: Call, clips: Sequence[Clip]) -> AsyncIterator[TurnResult]:
    """Speak the clips one after the other; yields each turn when its reply was heard."""
    ping_ms = await ping(call)
    if await call.wait_for(_started, GREETING_STARTS_S):
        await call.wait_for(_stopped, REPLY_TIMEOUT_S)
    for clip in clips:
        await _until_quiet(call)
        first = len(call.events)
        said = await call.say(clip)
        await call.wait_for(is_reply, REPLY_TIMEOUT_S, first)
        await _until_quiet(call)
        yield turn_result(call.recording, said, call.events[first:], ping_ms, WEBSOCKET_SLACK_MS)


async def ping(call: Call, times: int = 5) -> float:
    """The round trip of the WebSocket, in ms: the least of a few."""
    trips = []
    for _ in range(times):
        begun = time.monotonic()
        await (await call.socket.ping())
        trips.append((time.monotonic() - begun) * 1000)
    return min(trips)


async def _until_quiet(call: Call) -> None:
    await asyncio.sleep(max(0.0, call.recording.heard_until_s - call.now_s()) + PAUSE_S)


def _started(event: Event) -> bool:
    return event.type == "bot-started-speaking"


def _stopped(event: Event) -> bool:
    return event.type == "bot-stopped-speaking"


def is_reply(event: Event) -> bool:
    """Our own message that a reply was heard to its end."""
    return event.type == "server-message" and event.data.get("kind") == "reply" and event.data["turn"] > 0
