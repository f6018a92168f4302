"""Voices at known levels: a frame is 512 samples of noise, so that its RMS level is what is asked for."""

import numpy as np
import numpy.typing as npt
import pytest

from voice.nearness import FORGET_FRAMES, OWN_FRAMES, STRETCH_FRAMES, Nearness

CALLER_DBFS = -22.0


def frame(dbfs: float) -> npt.NDArray[np.int16]:
    noise = np.random.default_rng(1).normal(0, 1, 512)
    return np.asarray(noise / np.sqrt(np.mean(noise**2)) * 32767 * 10 ** (dbfs / 20)).astype(np.int16)


def speak(nearness: Nearness, dbfs: float, frames: int = 30) -> list[bool]:
    """Voice at a level; its syllables fall 15 dB in between."""
    return [nearness.near(frame(dbfs - (15 if n % 6 > 3 else 0)), 0.9) for n in range(frames)]


def test_the_caller_is_near_from_the_first_sound_on() -> None:
    assert all(speak(Nearness(), CALLER_DBFS))
    assert all(speak(Nearness(), -45))


def test_a_talker_far_below_the_caller_is_not_the_caller() -> None:
    nearness = Nearness()
    speak(nearness, CALLER_DBFS)
    heard = speak(nearness, CALLER_DBFS - 15, 60)
    assert not any(heard[STRETCH_FRAMES:])
    assert all(speak(nearness, CALLER_DBFS)), "the caller is heard at once"


@pytest.mark.parametrize("softer_db", [0, 6])
def test_a_softer_sentence_is_still_the_callers(softer_db: float) -> None:
    nearness = Nearness()
    speak(nearness, CALLER_DBFS)
    assert all(speak(nearness, CALLER_DBFS - softer_db, 60))


def test_a_caller_who_moved_away_is_heard_again_after_a_while() -> None:
    nearness = Nearness()
    speak(nearness, CALLER_DBFS)
    heard = speak(nearness, CALLER_DBFS - 20, FORGET_FRAMES + 30)
    assert not any(heard[STRETCH_FRAMES:FORGET_FRAMES])
    assert all(heard[-10:])


def test_a_slam_is_not_the_callers_level() -> None:
    nearness = Nearness()
    speak(nearness, CALLER_DBFS)
    for _ in range(20):
        nearness.near(frame(-3), 0.1)
    assert all(speak(nearness, CALLER_DBFS))


def test_an_echo_before_the_caller_has_spoken() -> None:
    """The greeting comes back 20 dB below; a caller who talks over it is heard."""
    nearness = Nearness()
    for _ in range(20):
        nearness.sent(frame(-16))
        assert not nearness.near(frame(-36), 0.9)
    assert nearness.near(frame(-24), 0.9)


def test_what_comes_back_late_is_still_an_echo_and_no_longer_a_second_behind() -> None:
    nearness = Nearness()
    nearness.sent(frame(-16))
    heard = [nearness.near(frame(-40), 0.9) for _ in range(OWN_FRAMES + 5)]
    assert not any(heard[: OWN_FRAMES - 1])
    assert heard[-1]
