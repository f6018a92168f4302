"""The analyser on recordings made by hand: what was put in is found, within one window of 10 ms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtests.call import Event, Said
from loadtests.turns import TurnResult, turn_result
from loadtests.wav import Clip
from telemetry.recording import CallRecording

RATE = 24_000
Pieces = list[tuple[float, float]]


def sound(length_ms: float, rate: int = RATE, level: float = 8_000) -> "np.ndarray":  # type: ignore[type-arg]
    return (level * np.cos(2 * np.pi * 440 * np.arange(round(rate * length_ms / 1000)) / rate)).astype(np.int16)


def clip(*pieces: tuple[float, float]) -> Clip:
    """(sound, silence) pieces at 16 kHz."""
    parts = [part for loud, quiet in pieces for part in (sound(loud, 16_000), np.zeros(round(16 * quiet), np.int16))]
    return Clip(np.concatenate(parts).reshape(-1, 1), 16_000)


def judged(
    spoken: Clip, agent: Pieces, at_s: float = 1.0, events: tuple[Event, ...] = (), until_s: float | None = None
) -> TurnResult:
    """`agent`: (begins, lasts) in ms of the call."""
    recording = CallRecording(RATE)
    for begin_ms, length_ms in agent:
        recording.hear(sound(length_ms), begin_ms / 1000)
    return turn_result(recording, Said(spoken, at_s), events, None, 40, until_s)


QUESTION = clip((600, 90), (500, 200))
"""Its last sound ends 1,190 ms after its beginning: at 2,190 ms of the call."""


@pytest.mark.parametrize("delay_ms", [30, 217, 300, 1234])
def test_response(delay_ms: float) -> None:
    result = judged(QUESTION, [(2190 + delay_ms, 800)])
    assert result.response_ms == pytest.approx(delay_ms, abs=10)
    assert (result.cut_off, result.holes_ms, result.flags) == (False, (), ())


def test_what_the_agent_said_before_is_no_answer() -> None:
    result = judged(QUESTION, [(100, 600), (2590, 800)])
    assert (result.response_ms, result.cut_off, result.stop_ms) == (pytest.approx(400, abs=10), False, None)


def test_nobody_answers() -> None:
    result = judged(QUESTION, [(100, 600)])
    assert (result.response_ms, result.flags) == (None, ("unanswered",))


def test_an_answer_after_the_next_question_is_not_this_ones() -> None:
    assert judged(QUESTION, [(6000, 500)], until_s=5.0).response_ms is None


def test_quiet_sound_is_no_answer() -> None:
    """-60 dBFS, then the answer."""
    recording = CallRecording(RATE)
    recording.hear(sound(300, level=45), 2.3)
    recording.hear(sound(300), 2.69)
    result = turn_result(recording, Said(QUESTION, 1.0), (), None, 40)
    assert result.response_ms == pytest.approx(500, abs=10)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.floats(50, 900), st.floats(20, 290) | st.floats(320, 1500)), min_size=1, max_size=6),
    st.floats(10, 900),
)
def test_hidden_gaps_are_found_in_their_lengths(pieces: Pieces, delay_ms: float) -> None:
    """Sound and gaps of any length: exactly the gaps of over 300 ms are found, each within 10 ms."""
    agent, at_ms, gaps = [], 2190 + delay_ms, []
    for number, (loud_ms, gap_ms) in enumerate(pieces):
        agent.append((at_ms, loud_ms))
        at_ms += loud_ms + gap_ms
        if number < len(pieces) - 1:
            gaps.append(gap_ms)
    result = judged(QUESTION, agent)
    assert list(result.holes_ms) == pytest.approx([gap for gap in gaps if gap > 300], abs=10.01)


def test_gaps_that_nothing_was_sent_in_and_gaps_of_silence_are_alike() -> None:
    sent, unsent = CallRecording(RATE), CallRecording(RATE)
    sent.hear(np.concatenate([sound(300), np.zeros(int(0.5 * RATE), np.int16), sound(300)]), 2.5)
    unsent.hear(sound(300), 2.5)
    unsent.hear(sound(300), 3.3)
    results = [turn_result(recording, Said(QUESTION, 1.0), (), None, 40) for recording in (sent, unsent)]
    assert results[0].holes_ms == results[1].holes_ms == (pytest.approx(500, abs=10),)


def test_cut_off() -> None:
    """The agent talks in the question's own pause, falls silent, and answers the whole of it later."""
    result = judged(clip((600, 700), (500, 200)), [(1700, 300), (3200, 800)])
    assert result.cut_off and "cut off" in result.flags
    assert result.response_ms == pytest.approx(400, abs=10)


def test_talk_that_began_inside_the_question_is_no_answer_to_it() -> None:
    """It began before the caller had finished and went on: what comes after a breath counts."""
    result = judged(QUESTION, [(2000, 500), (3000, 500)])
    assert result.cut_off
    assert result.response_ms == pytest.approx(810, abs=10)
    assert judged(QUESTION, [(2000, 500)]).response_ms is None


@pytest.mark.parametrize("stop_ms", [60, 200, 450])
def test_barge_in(stop_ms: float) -> None:
    """The agent has talked since before; it stops `stop_ms` after the caller's first sound, and answers later."""
    result = judged(QUESTION, [(200, 800 + stop_ms), (2690, 500)])
    assert result.stop_ms == pytest.approx(stop_ms, abs=10)
    assert (result.response_ms, result.cut_off) == (pytest.approx(500, abs=10), False)


def turn(number: int) -> Event:
    lines = {"endpoint": 200, "asr": 10, "llm_first_token": 20, "clause": 30, "tts": 40}
    return Event(2.5, "server-message", {"kind": "turn", "turn": number, "transcript": "hi", "lines_ms": lines})


def reply(number: int, text: str, interrupted: bool = False) -> Event:
    data = {"kind": "reply", "turn": number, "text": text, "interrupted": interrupted}
    return Event(3.5, "server-message", data)


def test_messages() -> None:
    result = judged(QUESTION, [(2520, 800)], events=(reply(0, "Hello."), turn(1), reply(1, "Paris.")))
    assert (result.transcript, result.reply, result.answers) == ("hi", "Paris.", 1)
    assert result.lines_ms["network"] == pytest.approx(30, abs=10)


def test_two_answers_to_one_question() -> None:
    result = judged(QUESTION, [(2520, 800)], events=(turn(1), reply(1, "A."), turn(2), reply(2, "B.")))
    assert (result.answers, result.flags) == (2, ("answered 2 times",))


def test_an_interrupted_reply_is_no_second_answer() -> None:
    events = (turn(1), reply(1, "A", interrupted=True), reply(1, "B."))
    assert judged(QUESTION, [(2520, 800)], events=events).answers == 1


def test_an_application_without_our_messages() -> None:
    events = (
        Event(2.4, "user-transcription", {"text": "hel", "final": False}),
        Event(2.4, "user-transcription", {"text": "hello", "final": True}),
        Event(2.5, "bot-tts-text", {"text": "Good "}),
        Event(2.6, "bot-tts-text", {"text": "day."}),
    )
    result = judged(QUESTION, [(2500, 800)], events=events)
    assert (result.transcript, result.reply, result.lines_ms) == ("hello", "Good day.", {})


def test_a_silent_clip_is_no_turn() -> None:
    assert judged(clip((0, 500)), [(2500, 800)]).flags == ("silent clip",)
