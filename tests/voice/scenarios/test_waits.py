"""How long the agent waits: the same for words that mean the same. Timed, so only in `make verify`."""

import asyncio

import numpy as np
import pytest

from loadtests.call import Call
from loadtests.wav import Clip
from telemetry.sound import first_loud_start_ms, last_loud_end_ms
from tests.support.calls import Say, ask, calling, quiet
from tests.support.clips import join, silence
from tests.support.llm import ScriptedLlm

pytestmark = [pytest.mark.system, pytest.mark.long]

TIMES = 7
APART_MS = 100


async def response_ms(call: Call, clip: Clip) -> float:
    """From the clip's last sound to the answer's first, where the caller hears it."""
    await ask(call, join(silence(0.5, clip.rate), clip))
    said = call.said[-1]
    end = last_loud_end_ms(said.clip.mono(), said.clip.rate)
    assert end is not None
    end_ms = said.at_s * 1000 + end
    onset = first_loud_start_ms(call.recording.agent(), call.recording.rate, end_ms)
    assert onset is not None
    await quiet(call, 0.5)
    return onset - end_ms


async def test_yeah_and_yes_wait_alike(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    """Medians within 100 ms of one another."""
    llm.reply = "I see."
    clips = {text: say(text) for text in ("Yeah.", "Yes.")}
    waits: dict[str, list[float]] = {text: [] for text in clips}
    async with calling(voice_url) as call:
        for _ in range(TIMES):
            for text, clip in clips.items():
                waits[text].append(await response_ms(call, clip))
    medians = {text: float(np.median(times)) for text, times in waits.items()}
    assert abs(medians["Yeah."] - medians["Yes."]) <= APART_MS, waits


async def test_the_first_call_is_as_fast_as_the_tenth(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    """After a minute of idling, within 1.3 times of the median of the nine calls behind it."""
    clip = say("What is the capital of France?")
    await asyncio.sleep(60)
    times = []
    for _ in range(10):
        async with calling(voice_url) as call:
            times.append(await response_ms(call, clip))
    assert times[0] <= 1.3 * float(np.median(times[1:])), times
