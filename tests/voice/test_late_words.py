"""A caller who goes on before the words of a finished turn are known, or into a fast answer. The models are fakes."""

import asyncio
from collections.abc import Callable

import pytest

from loadtests.call import Event, dial
from loadtests.wav import Clip
from telemetry.sound import first_loud_start_ms
from tests.support.calls import is_type
from tests.support.clips import join, silence
from tests.support.stages import Stages, serving

pytestmark = pytest.mark.system


async def test_a_caller_who_goes_on_before_the_words_are_known_gets_one_answer_to_all(
    say: Callable[[str], Clip],
) -> None:
    first, rest = say("Tell me."), say("Paris is the capital of France and has a long history.")
    assert first.duration_s + 0.8 < 2 < rest.duration_s
    stages = Stages(asr=1.0, words=lambda duration_s: "tell me" if duration_s < 2 else "the capital")
    async with serving(stages) as url:
        call = await dial(url)
        try:
            said = await call.say(join(first, silence(0.5, first.rate), rest))
            reply = await call.wait_for(
                lambda event: event.type == "server-message" and event.data.get("kind") == "reply", timeout_s=20
            )
        finally:
            await call.hang_up()
    assert reply is not None, (call.events, stages.asked)
    assert not reply.data["interrupted"]
    assert [message["content"] for message in stages.asked[-1] if message["role"] == "user"] == ["tell me the capital"]
    audible_ms = first_loud_start_ms(call.recording.agent(), call.recording.rate, 0)
    assert audible_ms is not None
    assert audible_ms > (said.at_s + said.clip.duration_s) * 1000 - 500, "nothing sounds while the caller speaks"


async def test_words_that_are_shown_too_late_do_not_interrupt_the_answer(say: Callable[[str], Clip]) -> None:
    question = say("How many continents are there on Earth?")
    stages = Stages(asr=0.1, interim=2.0, words=lambda _: "how many continents")
    async with serving(stages) as url:
        call = await dial(url)
        try:
            await call.say(question)
            reply = await call.wait_for(
                lambda event: event.type == "server-message" and event.data.get("kind") == "reply", timeout_s=20
            )
        finally:
            await call.hang_up()
    assert reply is not None, call.events
    assert not reply.data["interrupted"]
    assert reply.data["text"] == "It is this."


async def test_a_caller_who_pauses_goes_on_however_fast_and_long_the_answer(say: Callable[[str], Clip]) -> None:
    first, rest = say("Tell me."), say("Paris is the capital of France.")  # in one breath
    assert first.duration_s + 0.5 < rest.duration_s
    stages = Stages(
        asr=0.02, interim=0.02, llm_first_token=0.01, clause=0.01, tts=0.01, sound=3.0,
        words=lambda duration_s: "tell me" if duration_s < first.duration_s + 0.5 else "the capital",
    )  # fmt: skip
    async with serving(stages) as url:
        call = await dial(url)
        try:
            await call.say(join(first, silence(1.2, first.rate), rest))
            reply = await call.wait_for(is_finished_reply, timeout_s=20)
        finally:
            await call.hang_up()
    assert reply is not None, (call.events, stages.asked)
    assert [message["content"] for message in stages.asked[-1] if message["role"] != "system"] == [
        "tell me the capital"
    ]


def is_finished_reply(event: Event) -> bool:
    return event.type == "server-message" and event.data.get("kind") == "reply" and not event.data["interrupted"]


async def test_typing_into_an_answer_that_was_heard_is_a_turn_of_its_own() -> None:
    stages = Stages(llm_first_token=0.01, clause=0.01, tts=0.01, sound=4.0)
    typed = {"run_immediately": True, "audio_response": True}
    async with serving(stages) as url:
        call = await dial(url)
        try:
            await call.send("send-text", {"content": "one", "options": typed})
            assert await call.wait_for(is_type("bot-started-speaking"), 20) is not None
            await asyncio.sleep(2.5)
            await call.send("send-text", {"content": "two", "options": typed})
            assert await call.wait_for(is_finished_reply, timeout_s=20) is not None
        finally:
            await call.hang_up()
    said = [(message["role"], message["content"]) for message in stages.asked[-1] if message["role"] != "system"]
    assert said == [("user", "one"), ("assistant", "It"), ("user", "two")]
