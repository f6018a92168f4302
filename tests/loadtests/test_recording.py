"""Where received sound stands in a recording, at any rate, and that it is the same once saved."""

from pathlib import Path

import numpy as np

from telemetry.recording import CallRecording
from telemetry.sound import first_loud_start_ms, last_loud_end_ms


def tone(seconds: float, rate: int) -> "np.ndarray":  # type: ignore[type-arg]
    return (9_000 * np.sin(2 * np.pi * 200 * np.arange(round(seconds * rate)) / rate)).astype(np.int16)


def test_a_piece_stands_at_the_later_of_its_arrival_and_its_predecessors_end() -> None:
    recording = CallRecording(1000)
    assert recording.hear(np.ones(100, np.int16), 0.5) == 0.5
    assert recording.hear(np.ones(100, np.int16), 0.55) == 0.6
    assert recording.hear(np.ones(100, np.int16), 0.9) == 0.9
    assert np.flatnonzero(recording.agent()).tolist() == [*range(500, 700), *range(900, 1000)]


def test_another_rate_keeps_its_place_and_length() -> None:
    recording = CallRecording(24_000)
    for number, frame in enumerate(np.split(tone(1.0, 16_000), 50)):
        recording.hear(frame, 2.0 + number * 0.02, 16_000)
    agent = recording.agent()
    assert len(agent) == 72_000
    assert first_loud_start_ms(agent, 24_000) == 2_000
    assert last_loud_end_ms(agent, 24_000) == 3_000


def test_frames_of_another_rate_meet_without_a_click() -> None:
    """Against the same tone resampled in one: frame by frame it would differ at every seam."""
    whole, framed = CallRecording(24_000), CallRecording(24_000)
    whole.hear(tone(1.0, 16_000), 0.0, 16_000)
    for number, frame in enumerate(np.split(tone(1.0, 16_000), 50)):
        framed.hear(frame, number * 0.02, 16_000)
    assert np.array_equal(whole.agent(), framed.agent())


def test_pieces_saved_are_pieces_loaded(tmp_path: Path) -> None:
    recording = CallRecording(24_000)
    recording.say(tone(0.5, 16_000), 0.3, 16_000)
    recording.hear(tone(0.5, 24_000), 1.0)
    recording.hear(tone(0.25, 8_000), 3.0, 8_000)
    recording.save_pieces(tmp_path / "call.npz")
    loaded = CallRecording.load_pieces(tmp_path / "call.npz")
    assert np.array_equal(loaded.caller(), recording.caller())
    assert np.array_equal(loaded.agent(), recording.agent())
    assert loaded.heard_until_s == recording.heard_until_s == 3.25
