import numpy as np
import pytest

from voice.loudness import Loudness

FRAME_MS, FRAME_SAMPLES = 32.0, 512


def level(dbfs: float, samples: int) -> "np.ndarray[tuple[int], np.dtype[np.int16]]":
    amplitude = 32767 * 10 ** (dbfs / 20)
    return (amplitude * np.resize([1, -1], samples)).astype(np.int16)


def test_the_end_is_found_to_8_ms() -> None:
    loudness = Loudness()
    loudness.frame(level(-20, FRAME_SAMPLES), 0, FRAME_MS)
    loudness.frame(np.concatenate([level(-20, 256), level(-70, 256)]), 32, FRAME_MS)
    loudness.frame(level(-70, FRAME_SAMPLES), 64, FRAME_MS)
    assert loudness.end_ms == 48


@pytest.mark.parametrize(("tail_dbfs", "end_ms"), [(-44, 64.0), (-46, 32.0)])
def test_a_tail_counts_down_to_minus_45_dbfs(tail_dbfs: float, end_ms: float) -> None:
    loudness = Loudness()
    loudness.frame(level(-20, FRAME_SAMPLES), 0, FRAME_MS)
    loudness.frame(level(tail_dbfs, FRAME_SAMPLES), 32, FRAME_MS)
    assert loudness.end_ms == end_ms


def test_after_a_loud_voice_a_room_at_minus_40_is_quiet_and_after_a_soft_one_it_is_not() -> None:
    for voice_dbfs, end_ms in ((-5, 32.0), (-20, 64.0)):
        loudness = Loudness()
        loudness.frame(level(voice_dbfs, FRAME_SAMPLES), 0, FRAME_MS)
        loudness.frame(level(-40, FRAME_SAMPLES), 32, FRAME_MS)
        assert loudness.end_ms == end_ms


def test_a_new_turn_may_be_softer() -> None:
    loudness = Loudness()
    loudness.frame(level(-5, FRAME_SAMPLES), 0, FRAME_MS)
    loudness.new_turn()
    loudness.frame(level(-40, FRAME_SAMPLES), 32, FRAME_MS)
    assert loudness.end_ms == 64
