"""Shedding by deadline."""

import math

import pytest

from configs.errors import InputError
from planning.policies.deadline import queue_wait_s, retry_after_s


def test_a_queue_is_worked_off_by_all_replicas() -> None:
    assert queue_wait_s(60_000, 3, 10_000) == pytest.approx(2.0)
    assert queue_wait_s(0, 3, 10_000) == 0


def test_who_would_be_late_is_told_when_to_come_again() -> None:
    assert retry_after_s(2.0, 2.0) is None
    assert retry_after_s(2.5, 2.0) == pytest.approx(0.5)


def test_without_replicas_everybody_is_late() -> None:
    assert queue_wait_s(10, 0, 10_000) == math.inf
    assert retry_after_s(math.inf, 30.0) == math.inf


@pytest.mark.parametrize(("ahead_rt", "rate"), [(-1, 10), (math.nan, 10), (1, 0), (1, math.nan)])
def test_what_is_no_amount_or_rate_is_refused(ahead_rt: float, rate: float) -> None:
    with pytest.raises(InputError):
        queue_wait_s(ahead_rt, 1, rate)
