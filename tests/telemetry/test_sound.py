import numpy as np
import pytest

from telemetry.sound import Samples, first_loud_start_ms, holes_ms, last_loud_end_ms

RATE = 16_000


def tone(ms: int, dbfs: float) -> Samples:
    time_s = np.arange(RATE * ms // 1000) / RATE
    amplitude = 32767 * 10 ** (dbfs / 20) * np.sqrt(2)
    return (amplitude * np.sin(2 * np.pi * 400 * time_s)).astype(np.int16)


def silence(ms: int) -> Samples:
    return np.zeros(RATE * ms // 1000, dtype=np.int16)


@pytest.mark.parametrize(("dbfs", "audible"), [(-44.5, True), (-45.5, False)])
def test_the_threshold_is_minus_45_dbfs(dbfs: float, audible: bool) -> None:
    sound = np.concatenate([silence(100), tone(200, dbfs), silence(100)])
    assert (last_loud_end_ms(sound, RATE) == 300) is audible
    assert (first_loud_start_ms(sound, RATE) == 100) is audible


def test_silence_has_neither() -> None:
    assert last_loud_end_ms(silence(500), RATE) is None
    assert first_loud_start_ms(silence(500), RATE) is None
    assert last_loud_end_ms(silence(0), RATE) is None


def test_first_loud_from_a_position_on() -> None:
    sound = np.concatenate([tone(100, -20), silence(200), tone(100, -20)])
    assert first_loud_start_ms(sound, RATE, from_ms=100) == 300


def test_holes() -> None:
    sound = np.concatenate([tone(100, -20), silence(290), tone(100, -20), silence(310), tone(50, -20), silence(900)])
    assert holes_ms(sound, RATE, at_least_ms=300) == [(490, 310)]
