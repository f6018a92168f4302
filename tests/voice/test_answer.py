"""An answer in the making, on a scripted LLM and a voice that hums: what is said, what is not, and when it stops."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np

from telemetry.sound import Samples
from voice.answer import JOIN_MS, PAUSE_MS, Answer
from voice.history import Message
from voice.llm import LlmError, Piece

RATE = 24_000


class Voice:
    sample_rate = RATE

    def __init__(self) -> None:
        self.said: list[tuple[str, bool]] = []

    async def say(self, text: str, urgent: bool) -> AsyncIterator[Samples]:
        self.said.append((text, urgent))
        silence = np.zeros(RATE // 2, dtype=np.int16)
        yield silence
        yield np.concatenate([silence, np.full(RATE // 10, 5000, dtype=np.int16), silence])


class Chat:
    def __init__(self, *pieces: str, cut: bool = False, fails: bool = False) -> None:
        self._pieces, self._cut, self._fails = pieces, cut, fails

    async def reply(self, messages: Sequence[Message], request_id: str) -> AsyncIterator[Piece]:
        for piece in self._pieces:
            yield Piece(piece)
        if self._fails:
            raise LlmError("gone")
        if self._cut:
            yield Piece("", cut=True)


async def answer(chat: Chat) -> tuple[Answer, Voice]:
    voice: Any = Voice()
    made = Answer(1, [], chat, voice, RATE, "Sorry.", "r")
    async with asyncio.timeout(10):
        await made.run()
    return made, voice


async def test_the_first_clause_is_urgent_and_spoken_before_the_reply_is_whole() -> None:
    _, voice = await answer(Chat("The capital of France", " is Paris.", " It is old."))
    assert voice.said == [("The capital of France", True), ("is Paris.", False), ("It is old.", False)]


async def test_a_reply_that_ran_into_its_limit_ends_with_its_last_sentence() -> None:
    _, voice = await answer(Chat("It is so. And then it", cut=True))
    assert [text for text, _ in voice.said] == ["It is so."]
    _, voice = await answer(Chat("nothing but a fragment", cut=True))
    assert [text for text, _ in voice.said] == ["nothing but a fragment"]


async def test_silence_around_a_clause_is_dropped_but_for_a_pause() -> None:
    made, _ = await answer(Chat("The capital of France", " is Paris."))
    joined, ended = made.script.clauses
    sound_ms = 100
    assert abs(joined.samples * 1000 / RATE - sound_ms - JOIN_MS) <= 20
    assert abs(ended.samples * 1000 / RATE - sound_ms - PAUSE_MS) <= 20


async def test_no_reply_and_a_broken_one_are_apologised_for_once() -> None:
    for chat in (Chat(), Chat(fails=True), Chat("It is so. ", fails=True)):
        made, voice = await answer(chat)
        assert [text for text, _ in voice.said][-1] == "Sorry."
        assert sum(clause.aside for clause in made.script.clauses) == 1
        assert made.script.complete


async def test_a_withdrawn_answer_stops_the_llm() -> None:
    stopped = asyncio.Event()

    class Endless(Chat):
        async def reply(self, messages: Sequence[Message], request_id: str) -> AsyncIterator[Piece]:
            try:
                while True:
                    yield Piece("word ")
                    await asyncio.sleep(0.001)
            finally:
                stopped.set()

    voice: Any = Voice()
    task = asyncio.create_task(Answer(1, [], Endless(), voice, RATE, "Sorry.", "r").run())
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.wait([task])
    async with asyncio.timeout(5):
        await stopped.wait()
