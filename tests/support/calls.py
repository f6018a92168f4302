"""What a caller does and sees over the wire, for tests: speak, wait for a message, hear the reply out."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import numpy as np

from loadtests.call import BusyError, Call, Event, dial
from loadtests.wav import Clip
from telemetry.sound import loud_windows
from tests.support.llm import ScriptedLlm

Say = Callable[[str], Clip]
Recording = Callable[[str], Clip]

PATIENCE_S = 40
POLL_S = 0.02


@asynccontextmanager
async def calling(url: str) -> AsyncIterator[Call]:
    """A call; a place may still be taken for a moment by the one before."""
    for _ in range(50):
        try:
            call = await dial(url)
            break
        except BusyError:
            await asyncio.sleep(0.2)
    else:
        raise AssertionError("the line stays busy")
    try:
        yield call
    finally:
        await call.hang_up()


def is_message(kind: str) -> Callable[[Event], bool]:
    return lambda event: event.type == "server-message" and event.data.get("kind") == kind


def is_type(kind: str) -> Callable[[Event], bool]:
    return lambda event: event.type == kind


async def expect(call: Call, wanted: Callable[[Event], bool], since: int = 0) -> Event:
    event = await call.wait_for(wanted, PATIENCE_S, since)
    assert event is not None, f"waited in vain; there were {[(round(e.at_s, 1), e.type, e.data) for e in call.events]}"
    return event


async def ask(call: Call, clip: Clip) -> tuple[str, str]:
    """Speak, and hear the reply out: (transcript, reply)."""
    since = len(call.events)
    await call.say(clip)
    turn = await expect(call, is_message("turn"), since)
    reply = await expect(call, lambda e: is_message("reply")(e) and e.data["turn"] == turn.data["turn"], since)
    return turn.data["transcript"], reply.data["text"]


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


def understood(transcript: str, said: str) -> bool:
    """All but one word: the recognizer is a small one, and the voice never says a thing twice alike."""
    heard, meant = words(transcript), words(said)
    return abs(len(heard) - len(meant)) <= 1 and sum(word not in heard for word in meant) <= 1


def said_by_caller(llm: ScriptedLlm, request: int = -1) -> str:
    return llm.asked[request][-1]["content"]


def replies(call: Call) -> list[Event]:
    return [event for event in call.events if is_message("reply")(event)]


def spoken_since(call: Call, since: int) -> str:
    """The agent's clauses as they began to sound, from an event on."""
    return " ".join(event.data["text"] for event in call.events[since:] if event.type == "bot-tts-text")


async def quiet(call: Call, for_s: float) -> None:
    """Wait until nothing has been heard of the agent for so long."""
    async with asyncio.timeout(PATIENCE_S):
        while call.now_s() - call.recording.heard_until_s < for_s:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)


@asynccontextmanager
async def looped_back(call: Call, gain_db: float) -> AsyncIterator[None]:
    """The caller's loudspeaker is heard by the caller's microphone: what the agent says comes back, so much louder."""

    async def echo() -> None:
        gain, seen, said = 10 ** (gain_db / 20), 0, set()
        while True:
            pieces = call.recording.agent_pieces()
            for piece in pieces[seen:]:
                clip = Clip((piece.samples * gain).astype(np.int16)[:, None], piece.rate)
                said.add(asyncio.create_task(call.say(clip)))
            seen = len(pieces)
            await asyncio.sleep(POLL_S / 2)

    task = asyncio.create_task(echo())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def heard_by_the_caller(call: Call, from_s: float = 0.0) -> str:
    """The agent's side of the recording, from a moment of the call on, as the load tests' recogniser understands it."""
    from loadtests.ears import load_ears

    rate = call.recording.rate
    agent = call.recording.agent()[round(from_s * rate) :]
    loud = np.flatnonzero(loud_windows(agent, rate)) * rate // 100
    return load_ears()(agent[max(0, loud[0] - rate // 5) : loud[-1] + rate // 5], rate)
