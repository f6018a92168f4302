"""Whole calls over the wire: real ears, real voice, a scripted LLM. Each asserts on what is heard or asked."""

import asyncio

import numpy as np
import pytest

from loadtests.call import BusyError, dial
from loadtests.wav import Clip
from telemetry.sound import first_loud_start_ms
from tests.support.calls import (
    Recording,
    Say,
    ask,
    calling,
    expect,
    is_message,
    is_type,
    said_by_caller,
    understood,
    words,
)
from tests.support.clips import at, cough, join, noise, silence
from tests.support.llm import ScriptedLlm

pytestmark = pytest.mark.system

QUESTION = "How many legs does a spider have?"
STORY = " ".join(
    f"This is sentence number {word} of a long story." for word in ["one", "two", "three", "four", "five", "six"]
)


async def test_a_question_is_answered_with_the_llms_words_and_sound(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    async with calling(voice_url) as call:
        transcript, reply = await ask(call, say(QUESTION))
        assert understood(transcript, QUESTION)
        assert reply == "The answer is forty two."
        assert said_by_caller(llm) == transcript
        [turn] = [e for e in call.events if is_message("turn")(e)]
        assert set(turn.data["lines_ms"]) == {"endpoint", "asr", "llm_first_token", "clause", "tts"}
        assert all(ms >= 0 for ms in turn.data["lines_ms"].values())
        said = call.said[0]
        assert first_loud_start_ms(call.recording.agent(), call.recording.rate, said.at_s * 1000) is not None


@pytest.mark.parametrize(("rate", "channels"), [(8_000, 1), (24_000, 2), (44_100, 1), (48_000, 2)])
async def test_any_rate_and_channel_count(voice_url: str, llm: ScriptedLlm, say: Say, rate: int, channels: int) -> None:
    async with calling(voice_url) as call:
        transcript, _ = await ask(call, at(say(QUESTION), rate, channels))
        assert understood(transcript, QUESTION)


async def test_a_real_recording(voice_url: str, llm: ScriptedLlm, recording: Recording) -> None:
    async with calling(voice_url) as call:
        transcript, _ = await ask(call, recording("weather_question.wav"))
        assert understood(transcript, "What is the weather in Paris?")


async def test_one_word(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    async with calling(voice_url) as call:
        transcript, reply = await ask(call, say("Yes."))
        assert words(transcript) == ["yes"]
        assert reply


@pytest.mark.parametrize("clip", [silence(4), noise(6, -40), noise(4, -25), join(cough(), silence(2))])
async def test_no_words_no_reply(voice_url: str, llm: ScriptedLlm, clip: Clip) -> None:
    async with calling(voice_url) as call:
        await call.say(clip)
        await asyncio.sleep(2)
        assert llm.asked == []
        assert call.recording.heard_until_s == 0


async def test_room_noise_gets_no_reply(voice_url: str, llm: ScriptedLlm, recording: Recording) -> None:
    room = recording("office-ambience.mp3")
    async with calling(voice_url) as call:
        await call.say(Clip(room.samples[: 15 * room.rate], room.rate))
        await asyncio.sleep(2)
        assert llm.asked == []


async def test_the_conversation_is_remembered(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    async with calling(voice_url) as call:
        first, reply = await ask(call, say(QUESTION))
        await ask(call, say("And how many people live there?"))
    roles = [message["role"] for message in llm.asked[-1]]
    assert roles == ["system", "user", "assistant", "user"]
    assert [llm.asked[-1][1]["content"], llm.asked[-1][2]["content"]] == [first, reply]


async def test_typing_instead_of_speaking(voice_url: str, llm: ScriptedLlm) -> None:
    async with calling(voice_url) as call:
        await call.send(
            "send-text", {"content": "Type this", "options": {"run_immediately": True, "audio_response": True}}
        )
        reply = await expect(call, is_message("reply"))
        assert reply.data["text"] == llm.reply
        assert said_by_caller(llm) == "Type this"
        assert len(call.recording.agent())


async def test_a_40_s_monologue_loses_no_half(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    parts = [
        say(f"{a} is the {b} thing that I want to tell you about today, before we go on.") for a, b, *_ in MONOLOGUE
    ]
    clip = join(*(piece for part in parts for piece in (part, silence(0.12, part.rate))))
    assert clip.duration_s > 38
    async with calling(voice_url) as call:
        said = await call.say(clip)
        await expect(call, lambda e: is_message("reply")(e) and e.at_s > said.at_s + clip.duration_s)
    heard = " ".join(message["content"] for message in llm.asked[-1] if message["role"] == "user").lower()
    missing = [spellings for _, *spellings in MONOLOGUE if not any(spelling in heard for spelling in spellings)]
    assert len(missing) <= 1, heard


MONOLOGUE = [
    ("Water", "first", "1st"), ("Bread", "second", "2nd"), ("Sugar", "third", "3rd"), ("Music", "fourth", "4th"),
    ("Winter", "fifth", "5th"), ("Summer", "sixth", "6th"), ("Money", "seventh", "7th"), ("Garden", "eighth", "8th"),
    ("Football", "ninth", "9th"), ("Paper", "tenth", "10th"), ("Coffee", "eleventh", "11th"), ("London", "last"),
]  # fmt: skip


async def test_speech_during_the_greeting_is_heard_and_stops_it(greeting_url: str, llm: ScriptedLlm, say: Say) -> None:
    async with calling(greeting_url) as call:
        await expect(call, is_type("bot-started-speaking"))
        await asyncio.sleep(0.6)
        transcript, _ = await ask(call, say(QUESTION))
        assert understood(transcript, QUESTION)
        [greeting, answer] = [e for e in call.events if is_message("reply")(e)]
        assert greeting.data["interrupted"]
        assert not answer.data["interrupted"]


async def test_an_interruption_stops_sound_and_engine_and_leaves_what_was_heard(
    voice_url: str, llm: ScriptedLlm, say: Say
) -> None:
    llm.reply, llm.word_s = STORY, 0.15
    async with calling(voice_url) as call:
        await call.say(say("Tell me a long story, please."))
        await expect(call, is_message("turn"))
        await asyncio.sleep(2.5)
        since = len(call.events)
        await call.say(say("Stop. " + QUESTION))
        reply = await expect(call, is_message("reply"), since)
        assert reply.data["interrupted"]
        heard = reply.data["text"]
        assert heard and STORY.startswith(heard) and len(heard) < len(STORY)
        await expect(call, is_message("turn"), since)
        assert llm.abandoned >= 1, "the engine was told to stop"
        assert [m["content"] for m in llm.asked[-1] if m["role"] == "assistant"] == [heard]


@pytest.mark.parametrize("sound", ["cough", "yeah"])
async def test_the_agent_goes_on_after_a_cough_or_yeah(voice_url: str, llm: ScriptedLlm, say: Say, sound: str) -> None:
    llm.reply = "One is the first number. Two is the second number. Three is the third number."
    clip = join(cough(22_050), cough(22_050)) if sound == "cough" else say("Yeah.")
    async with calling(voice_url) as call:
        since = len(call.events)
        await call.say(say("Tell me about numbers."))
        await expect(call, is_message("turn"), since)
        await asyncio.sleep(1)
        await call.say(clip)
        reply = await expect(call, is_message("reply"), since)
        assert not reply.data["interrupted"]
        assert reply.data["text"] == llm.reply
        assert len(llm.asked) == 1
        spoken = [e.data["text"] for e in call.events if e.type == "bot-tts-text"]
        assert " ".join(spoken) == llm.reply, "nothing repeated, nothing left out"


async def test_a_pause_and_then_the_rest_is_one_turn(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    first, rest = say("Please tell me about the"), say("capital of France and its history.")
    async with calling(voice_url) as call:
        await call.say(join(first, silence(1.1, first.rate), rest))
        await expect(call, lambda e: is_message("reply")(e) and not e.data["interrupted"])
        heard = words(said_by_caller(llm))
        assert heard[:3] == ["please", "tell", "me"] and heard[-3:] == ["and", "its", "history"]
        assert [m["role"] for m in llm.asked[-1]] == ["system", "user"]
        whole = [e for e in call.events if is_message("reply")(e) and not e.data["interrupted"]]
        assert len(whole) == 1


async def test_malformed_and_oversized_messages_cost_nothing(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    async with calling(voice_url) as call:
        for message in (b"\xff\xfe junk", b"", bytes(400_000), "text", "{}", b"\x1a\x02\x0a\x00"):
            await call.socket.send(message)
        await call.send("no-such-type", {})
        await call._send(audio_message(sample_rate=3, channels=1))
        await call._send(audio_message(sample_rate=16_000, channels=99))
        transcript, reply = await ask(call, say(QUESTION))
        assert understood(transcript, QUESTION)
        assert reply == llm.reply


def audio_message(sample_rate: int, channels: int) -> bytes:
    from pipecat.frames.protobufs import frames_pb2

    audio = frames_pb2.AudioRawFrame(audio=bytes(640), sample_rate=sample_rate, num_channels=channels)
    message: bytes = frames_pb2.Frame(audio=audio).SerializeToString()
    return message


@pytest.mark.parametrize("when", ["start", "sentence", "answer"])
async def test_a_hang_up_ends_every_request_and_frees_the_place(
    voice_url: str, llm: ScriptedLlm, say: Say, when: str
) -> None:
    llm.reply, llm.word_s = STORY, 0.1
    for _ in range(3):  # more than there are places
        async with calling(voice_url) as call:
            if when == "sentence":
                speaking = asyncio.create_task(call.say(say("Tell me a long story, please.")))
                await expect(call, is_type("user-started-speaking"))
                speaking.cancel()
            elif when == "answer":
                await call.say(say("Tell me a long story, please."))
                await expect(call, is_message("turn"))
    for _ in range(100):
        if llm.open == 0:
            break
        await asyncio.sleep(0.1)
    assert llm.open == 0
    llm.reset()
    async with calling(voice_url) as call:
        assert (await ask(call, say(QUESTION)))[1] == llm.reply


@pytest.mark.parametrize("fault", ["refuse", "drop"])
async def test_an_llm_that_fails_is_apologised_for_and_the_call_goes_on(
    voice_url: str, llm: ScriptedLlm, say: Say, fault: str
) -> None:
    llm.fault = fault  # type: ignore[assignment]
    async with calling(voice_url) as call:
        await call.say(say(QUESTION))
        await expect(call, lambda e: e.type == "bot-tts-text" and "sorry" in e.data["text"].lower())
        await expect(call, lambda e: is_message("notice")(e) and e.data["reason"] == "no_answer")
        await expect(call, is_message("reply"))
        llm.fault = "none"
        _, reply = await ask(call, say(QUESTION))
        assert reply == llm.reply
        assert not any("sorry" in m["content"].lower() for m in llm.asked[-1])


async def test_a_third_caller_is_told_that_the_line_is_busy(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    async with calling(voice_url) as one, calling(voice_url) as two:
        with pytest.raises(BusyError, match="busy"):
            await dial(voice_url)
        for call in (one, two):
            assert (await ask(call, say(QUESTION)))[1] == llm.reply


async def test_nothing_received_is_silent_garbage(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    """The agent's channel says the reply: heard back by the same recognizer that callers are heard with."""
    from configs.models import prepared
    from configs.voice import Hearing
    from voice.asr import Recognizer

    async with calling(voice_url) as call:
        await ask(call, say(QUESTION))
        await asyncio.sleep(0.5)
        agent = at(Clip(call.recording.agent()[:, None], call.recording.rate), 16_000).mono()
    heard = Recognizer(prepared("asr"), Hearing()).transcribe_now(agent.astype(np.float32) / 32768)
    assert words(heard.text)[:3] == ["the", "answer", "is"]
    assert words(heard.text)[-1] in ("42", "two")
