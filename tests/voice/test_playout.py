"""Playing with a recorded clock: what was handed on, when, and what counts as heard."""

import asyncio
import time

import numpy as np

from telemetry.sound import Samples
from voice.playout import CHUNK_MS, Clause, Playout, Script, heard_text

RATE = 1000


def sound(ms: int, value: int = 1) -> Samples:
    return np.full(ms, value, dtype=np.int16)


class Listener:
    def __init__(self) -> None:
        self.heard: list[int] = []
        self.at: list[float] = []
        self.clauses: list[str] = []
        self.playout = Playout(RATE, self._send, self._clause)

    async def _send(self, samples: Samples) -> None:
        self.heard += samples.tolist()
        self.at.append(time.monotonic())

    async def _clause(self, clause: Clause) -> None:
        self.clauses.append(clause.text)


def script(*clauses: tuple[str, Samples]) -> Script:
    play = Script()
    for text, samples in clauses:
        clause = play.begin(text)
        play.add(clause, samples)
        play.close(clause)
    play.finish()
    return play


async def test_everything_is_played_once_and_in_order() -> None:
    listener = Listener()
    await listener.playout.play(script(("one two", sound(50, 1)), ("three", sound(30, 2))))
    assert listener.heard == [1] * 50 + [2] * 30
    assert listener.clauses == ["one two", "three"]
    assert listener.playout.all_text() == "one two three"
    assert listener.playout.heard_ms == 80


async def test_sound_that_comes_late_is_waited_for() -> None:
    listener, play = Listener(), Script()
    playing = asyncio.create_task(listener.playout.play(play))
    await asyncio.sleep(0.02)
    clause = play.begin("slow")
    play.add(clause, sound(25))
    await asyncio.sleep(0.05)
    play.add(clause, sound(25))
    play.close(clause)
    play.finish()
    await playing
    assert len(listener.heard) == 50


async def test_a_pause_holds_the_rest_back_and_nothing_is_repeated_or_lost() -> None:
    listener = Listener()
    samples = np.arange(400, dtype=np.int16)
    playing = asyncio.create_task(listener.playout.play(script(("a b c d", samples))))
    await asyncio.sleep(0.1)
    listener.playout.pause()
    await asyncio.sleep(0.05)
    held = len(listener.heard)
    await asyncio.sleep(0.1)
    assert len(listener.heard) == held < 400
    listener.playout.resume()
    await playing
    assert listener.heard == list(range(400))


async def test_an_interrupted_clause_counts_by_its_words_heard() -> None:
    listener = Listener()
    playing = asyncio.create_task(listener.playout.play(script(("one two three four", sound(400)))))
    while len(listener.heard) < 200:  # noqa: ASYNC110 - what is waited for is a count
        await asyncio.sleep(0.005)
    listener.playout.pause()
    playing.cancel()
    assert listener.playout.heard() in ("one two", "one two three")


def test_heard_text_leaves_out_asides_and_what_was_not_begun() -> None:
    said, aside, unheard = Clause("hello there"), Clause("sorry", aside=True), Clause("never")
    for clause in (said, aside, unheard):
        clause.sound, clause.complete = [sound(100)], True
    assert heard_text([(said, 100), (aside, 100), (unheard, 0)]) == "hello there"
    assert heard_text([(said, 50)]) == "hello"


async def test_pace_is_real_time_with_a_short_lead() -> None:
    listener = Listener()
    begun = time.monotonic()
    await listener.playout.play(script(("x", sound(300))))
    assert time.monotonic() - begun >= 0.3 - CHUNK_MS / 1000, "not faster than it sounds"


async def test_a_pause_as_a_clause_begins_does_not_begin_it_twice() -> None:
    listener = Listener()
    playing = asyncio.create_task(listener.playout.play(script(("one", sound(200, 1)), ("two", sound(100, 2)))))
    while len(listener.clauses) < 2:  # noqa: ASYNC110 - what is waited for is a count
        await asyncio.sleep(0.001)
    assert 2 not in listener.heard, "the second clause has begun, and its first sound is not due yet"
    listener.playout.pause()
    await asyncio.sleep(0.1)
    listener.playout.resume()
    await playing
    assert listener.clauses == ["one", "two"]
    assert listener.playout.all_text() == "one two"
    assert listener.heard == [1] * 200 + [2] * 100
