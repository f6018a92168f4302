"""What a microphone picks up besides the caller's words."""

import asyncio

import numpy as np
import pytest

from loadtests.wav import Clip
from tests.support.calls import (
    Say,
    ask,
    calling,
    is_type,
    looped_back,
    quiet,
    replies,
    spoken_since,
    understood,
    words,
)
from tests.support.clips import at, cough, join, mix, silence
from tests.support.llm import ScriptedLlm

pytestmark = pytest.mark.system

QUESTION = "How many legs does a spider have?"


async def test_one_word_over_the_telephone(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    async with calling(voice_url) as call:
        transcript, reply = await ask(call, at(say("Sure."), 8_000))
        assert len(words(transcript)) == 1
        assert reply == llm.reply


async def test_a_cough_between_question_and_answer(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    llm.first_word_s = 1.5
    question = say(QUESTION)
    async with calling(voice_url) as call:
        transcript, reply = await ask(call, join(question, silence(0.6, question.rate), cough(question.rate)))
        assert understood(transcript, QUESTION)
        assert reply == llm.reply
        await asyncio.sleep(1.5)
        assert len(replies(call)) == 1
        assert [message["role"] for message in llm.asked[-1]] == ["system", "user"]


@pytest.mark.long
async def test_the_agents_own_sound_comes_back(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    """20 dB softer than it was sent: the agent neither stops for itself nor answers itself."""
    llm.reply = "Monday is the first day of the week. Tuesday is the second day. Wednesday is the third one."
    async with calling(voice_url) as call, looped_back(call, -20):
        since = len(call.events)
        _, reply = await ask(call, say("Tell me about the days of the week."))
        await quiet(call, 2.5)
        assert [event.data["interrupted"] for event in replies(call)] == [False]
        assert reply == spoken_since(call, since) == llm.reply
        assert len(llm.asked) == 1
        assert sum(e.type == "user-transcription" and e.data["final"] for e in call.events) == 1


@pytest.mark.long
async def test_a_second_talker_in_the_room(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    """Somebody else talks on and on, 15 dB below the caller: one answer, to the caller."""
    other = lower(
        say("The train to London leaves from platform four, and then we walk along the river to the old town.")
    )
    question = say(QUESTION)
    gain_db = level_dbfs(question) - 15 - level_dbfs(other)
    scene = mix(join(question, silence(3, question.rate)), other, gain_db)
    async with calling(voice_url) as call:
        transcript, reply = await ask(call, scene)
        await quiet(call, 2)
        assert understood(transcript, QUESTION)
        assert reply == llm.reply
        assert len(replies(call)) == 1
        assert [message["role"] for message in llm.asked[-1]] == ["system", "user"]


def level_dbfs(clip: Clip) -> float:
    """RMS over the loud windows."""
    samples = clip.mono()[: len(clip.samples) // 100 * 100].reshape(-1, 100).astype(float)
    loud = samples[np.abs(samples).max(axis=1) > 300]
    return float(10 * np.log10(np.mean(loud**2) / 32767**2))


def lower(clip: Clip) -> Clip:
    """Another talker: the same voice, lower and slower."""
    return Clip(at(clip, round(clip.rate * 1.25)).samples, clip.rate)


async def test_a_breath_opens_a_turn_without_words(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    async with calling(voice_url) as call:
        await call.say(join(silence(0.6), breath(), silence(1.5)))
        await asyncio.sleep(1.5)
        assert any(is_type("user-started-speaking")(event) for event in call.events), "no turn opened: choose another"
        assert llm.asked == []
        assert call.recording.heard_until_s == 0
        _, reply = await ask(call, say(QUESTION))
        assert reply == llm.reply


def breath(rate: int = 16_000) -> Clip:
    """A voiced sigh: a hum without a word, which voice activity takes for a voice."""
    times = np.arange(round(0.6 * rate)) / rate
    sound = np.sin(2 * np.pi * 200 * times) * np.hanning(len(times)) * 6000
    return Clip(sound.astype(np.int16)[:, None], rate)
