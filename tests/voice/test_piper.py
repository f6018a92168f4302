"""The voice: its pieces are the whole, and its process says what it is asked to."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from configs.models import prepared
from configs.voice import Speaking
from voice.tts.piper import SpeechError, Voice
from voice.tts.piper_process import SplitVoice

pytestmark = pytest.mark.system

SENTENCE = "The capital of France is Paris, and it lies on the river Seine, which flows into the sea."


@pytest.fixture(scope="module")
def split() -> SplitVoice:
    return SplitVoice(prepared("tts"), 1.0, 2)


def test_the_pieces_are_the_whole_to_a_16_bit_step(split: SplitVoice) -> None:
    latent = split.encode(split._voice.phonemes_to_ids(split._voice.phonemize(SENTENCE)[0]))
    [whole] = split.decode(latent, (latent.shape[2],))
    pieces = list(split.decode(latent))
    assert len(pieces) > 3
    assert len(np.concatenate(pieces)) == len(whole)
    assert np.abs(np.concatenate(pieces) - whole).max() * 32767 < 1


@pytest.fixture
async def voice() -> AsyncIterator[Voice]:
    voice = Voice(prepared("tts"), Speaking())
    await voice.start()
    yield voice
    await voice.stop()


async def length_of(voice: Voice, text: str) -> int:
    return sum([len(sound) async for sound in voice.say(text, urgent=True)])


async def test_it_says_what_it_is_asked_in_pieces(voice: Voice) -> None:
    pieces = [sound async for sound in voice.say(SENTENCE, urgent=True)]
    assert len(pieces) > 3
    assert 3 < sum(len(piece) for piece in pieces) / voice.sample_rate < 9
    assert np.abs(np.concatenate(pieces)).max() > 6000


@pytest.mark.parametrize("text", ["", "...", "\n", "\x00", "日本", "a" * 3000])
async def test_odd_text_ends_and_the_next_is_said(voice: Voice, text: str) -> None:
    async with asyncio.timeout(120):
        await length_of(voice, text)
        assert await length_of(voice, "Still here.") > voice.sample_rate // 4


async def test_what_is_not_wanted_any_more_is_not_said(voice: Voice) -> None:
    sounds = voice.say(SENTENCE * 20, urgent=False)
    await anext(sounds)
    await sounds.aclose()  # type: ignore[attr-defined]
    async with asyncio.timeout(60):
        assert await length_of(voice, "Next.") > 1000


async def test_a_process_that_died_is_started_again(voice: Voice) -> None:
    assert voice._process is not None
    sounds = voice.say(SENTENCE * 20, urgent=False)
    await anext(sounds)
    voice._process.kill()
    with pytest.raises(SpeechError, match="died"):
        while True:
            await anext(sounds)
    assert await length_of(voice, "Here again.") > 1000
