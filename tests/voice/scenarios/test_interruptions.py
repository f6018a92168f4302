"""Callers who talk over the agent: it stops when it is meant to, and says nothing stale afterwards."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from loadtests.call import Event
from loadtests.wav import Clip
from tests.support.calls import (
    PATIENCE_S,
    Say,
    ask,
    calling,
    expect,
    heard_by_the_caller,
    is_message,
    replies,
    said_by_caller,
    spoken_since,
    words,
)
from tests.support.llm import ScriptedLlm

pytestmark = pytest.mark.system

ANIMALS = ["horses", "tigers", "monkeys", "elephants", "rabbits", "penguins"]


def about_an_animal(messages: list[dict[str, Any]]) -> str:
    """Six sentences about the animal that was asked for last."""
    asked = messages[-1]["content"].lower()
    animal = next((name for name in ANIMALS if name in asked), "nothing")
    return " ".join(f"Sentence {number} tells you more about {animal}." for number in ("one", "two", "three", "four"))


@pytest.mark.long
async def test_five_interruptions_leave_no_stale_sentence(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    llm.answer = about_an_animal
    questions = [say(f"Tell me a story about {animal}, please.") for animal in ANIMALS]
    async with calling(voice_url) as call:
        for animal, question in zip(ANIMALS, questions, strict=True):
            since = len(call.events)
            await call.say(question)
            await expect(call, is_message("turn"), since)
            if animal != ANIMALS[-1]:
                await expect(call, says("two"), since)
        await expect(call, lambda e: is_message("reply")(e) and not e.data["interrupted"], since)
        assert [reply.data["interrupted"] for reply in replies(call)] == [True] * 5 + [False]
        turn = next(index for index, e in enumerate(call.events) if index >= since and is_message("turn")(e))
        assert spoken_since(call, turn) in about_an_animal([{"content": ANIMALS[-1]}])
        last = call.said[-1]
        heard = words(heard_by_the_caller(call, last.at_s + last.clip.duration_s))
    assert "penguins" in heard
    assert not set(heard) & set(ANIMALS[:-1]), heard


def says(word: str) -> Callable[[Event], bool]:
    return lambda event: event.type == "bot-tts-text" and word in event.data["text"]


@pytest.mark.long
async def test_interrupted_at_half_the_agent_knows_what_was_heard(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    days = (
        "Monday is the first. Tuesday is the second. Wednesday is the third. Thursday is the fourth. Friday is fifth."
    )
    llm.reply = days
    question, interruption = say("Tell me about the days of the week."), say("Stop, please. What did you just tell me?")
    async with calling(voice_url) as call:
        await call.say(question)
        await expect(call, says("Wednesday"))
        llm.reply = "You heard that."
        await ask(call, interruption)
        [heard] = [message["content"] for message in llm.asked[-1] if message["role"] == "assistant"]
        assert days.startswith(heard)
        assert "Tuesday is the second." in heard and "Friday" not in heard
        [cut, answer] = replies(call)
        assert cut.data == {"kind": "reply", "turn": 1, "text": heard, "interrupted": True}
        assert answer.data["text"] == "You heard that."


@pytest.mark.parametrize("sound", ["mhmm", "Uh-huh."])
@pytest.mark.long
async def test_the_agent_goes_on_while_the_caller_listens_aloud(
    voice_url: str, llm: ScriptedLlm, say: Say, sound: str
) -> None:
    llm.reply = "One is the first number. Two is the second number. Three is the third number."
    question, murmur = say("Tell me about numbers."), hum() if sound == "mhmm" else say(sound)
    async with calling(voice_url) as call:
        since = len(call.events)
        await call.say(question)
        await expect(call, says("Two"), since)
        await call.say(murmur)
        reply = await expect(call, is_message("reply"), since)
        assert not reply.data["interrupted"]
        assert reply.data["text"] == spoken_since(call, since) == llm.reply, "nothing repeated, nothing left out"
        assert len(llm.asked) == 1


def hum(rate: int = 16_000) -> Clip:
    """'Mhmm', which speech synthesis spells out."""
    times = np.arange(round(0.4 * rate)) / rate
    return Clip((np.sin(2 * np.pi * 160 * times) * np.hanning(len(times)) * 6000).astype(np.int16)[:, None], rate)


async def test_an_answer_that_is_superseded_before_it_is_heard(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    """The caller goes on once an answer was begun on a guess: it is stopped, and only the answer to all is heard."""
    llm.answer, llm.first_word_s = lambda messages: f"You said: {messages[-1]['content']}", 2.0
    first, rest = say("Please tell me about the capital of"), say("France and Spain and Italy.")
    async with calling(voice_url) as call:
        await call.say(first)
        async with asyncio.timeout(PATIENCE_S):
            while not llm.asked:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)
        await call.say(rest)
        reply = await expect(call, lambda e: is_message("reply")(e) and not e.data["interrupted"])
        await asyncio.sleep(1.0)
        assert [event for event in replies(call) if event.data["text"]] == [reply]
        assert words(reply.data["text"])[-1] == "italy"
        assert "capital" in words(said_by_caller(llm))
        assert [message["role"] for message in llm.asked[-1]] == ["system", "user"]
        assert llm.abandoned == len(llm.asked) - 1 >= 1, "the answers begun on guesses were stopped"
        assert "italy" in words(heard_by_the_caller(call))
    async with httpx.AsyncClient(trust_env=False) as client:
        counts = (await client.get(f"{voice_url}/counts")).json()
    assert counts["answers_made"] == counts["answers_kept"] + counts["answers_withdrawn"]
    assert counts["answers_withdrawn"] >= 1
    assert counts["llm_calls"] >= counts["answers_made"]
