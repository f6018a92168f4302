"""Lines by hand: times in seconds, chosen so that each line is another number of milliseconds."""

import dataclasses

import pytest

from telemetry.budget import TurnEvents, all_lines_ms, server_lines_ms

SPECULATED_IN_TIME = TurnEvents(
    voice_end=10.000, guess=10.100, transcript=10.130, first_token=10.150, first_clause=10.160,
    first_audio=10.180, confirm=10.200, sound=10.205,
)  # fmt: skip
TOO_SLOW = TurnEvents(
    voice_end=10.000, guess=10.100, transcript=10.210, first_token=10.270, first_clause=10.350,
    first_audio=10.480, confirm=10.200, sound=10.490,
)  # fmt: skip


def test_an_answer_that_is_ready_first_costs_only_the_wait() -> None:
    lines = server_lines_ms(SPECULATED_IN_TIME)
    assert lines == pytest.approx({"endpoint": 200, "asr": 0, "llm_first_token": 0, "clause": 0, "tts": 5})


def test_an_answer_that_is_late_costs_the_wait_until_its_guess_and_its_own_stages() -> None:
    lines = server_lines_ms(TOO_SLOW)
    assert lines == pytest.approx({"endpoint": 100, "asr": 110, "llm_first_token": 60, "clause": 80, "tts": 140})


STAGES = ["transcript", "first_token", "first_clause", "first_audio", "sound"]


@pytest.mark.parametrize(
    ("stage", "line"),
    list(zip(STAGES, ["asr", "llm_first_token", "clause", "tts", "tts"], strict=True)),
)
def test_a_stage_that_takes_100_ms_longer_is_found_in_its_line(stage: str, line: str) -> None:
    later = STAGES[STAGES.index(stage) :]
    delayed = dataclasses.replace(TOO_SLOW, **{name: getattr(TOO_SLOW, name) + 0.1 for name in later})
    before, after = server_lines_ms(TOO_SLOW), server_lines_ms(delayed)
    assert {name: round(after[name] - before[name]) for name in before if round(after[name] - before[name])} == {
        line: 100
    }


@pytest.mark.parametrize("events", [SPECULATED_IN_TIME, TOO_SLOW])
def test_the_lines_add_up_to_what_the_client_heard(events: TurnEvents) -> None:
    server = server_lines_ms(events)
    assert sum(server.values()) == pytest.approx((events.sound - events.voice_end) * 1000)
    assert sum(all_lines_ms(server, 612.5).values()) == pytest.approx(612.5)
