"""The hearing processor on virtual time, with its real models: a core of what `make verify PART=voice` measures."""

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from configs.deployment import load_deployment
from configs.voice import TurnTaking
from tests.verify.hearing import pauses, recognition
from tests.verify.hearing.pauses import Case, bound, outcome
from voice.hearing import Hearing
from voice.turns import Guessed

pytestmark = pytest.mark.system

TURN = TurnTaking()
CASE = Case("a pause of 1 s", np.zeros(0, dtype=np.int16), pause_ms=2000, goes_on_ms=3000, end_ms=5000)


def test_sentences_are_recognised_about_as_well_as_with_the_whole_window() -> None:
    results = recognition.hear(list(recognition.cases(every=12)), load_deployment().voice, print)
    assert sum(len(result.case.said.split()) for result in results) > 150
    ours, theirs = recognition.error_rates(results)
    assert ours <= theirs + 5, recognition.table(results)


def test_a_pause_inside_a_sentence_cuts_hardly_anybody_off() -> None:
    """Of eight, whose first words could mostly stand alone, three are too many; `make verify PART=voice` has more."""
    outcomes = pauses.run(pauses.cases(every=40), load_deployment().voice, print)
    assert len(outcomes) >= 7
    assert all(o.wait_ms is not None for o in outcomes)
    assert sum(o.cut_off for o in outcomes) < 3


async def test_a_withdrawn_guess_leaves_a_long_segment_alone() -> None:
    unused: Any = None
    hearing = Hearing(load_deployment().voice, unused, unused)
    long, last = asyncio.create_task(asyncio.sleep(0.01)), asyncio.create_task(asyncio.sleep(60, "the rest"))
    hearing._long = [long]
    telling = asyncio.create_task(hearing._tell(Guessed(1, 0), [], 0, last, 0.0))
    await asyncio.sleep(0)
    telling.cancel()
    await asyncio.wait([telling, long])
    assert telling.cancelled() and not long.cancelled()
    last.cancel()


@pytest.mark.parametrize(
    ("over_ms", "ended", "talked_into", "cut_off"),
    [
        ([(5100, 5200)], False, False, False),
        ([(2100, 2200), (5100, 5200)], True, True, False),
        ([(2600, 2990), (5100, 5200)], True, True, False),
        ([(2800, 2990), (5100, 5200)], True, False, False),
    ],
)
def test_what_counts_as_cut_off(
    over_ms: list[tuple[float, float]], ended: bool, talked_into: bool, cut_off: bool
) -> None:
    found = outcome(CASE, over_ms, TURN)
    assert (found.ended, found.talked_into, found.cut_off) == (ended, talked_into, cut_off)
    assert found.wait_ms == 200


def test_an_answer_heard_for_long_is_a_cut_off() -> None:
    long = replace(CASE, goes_on_ms=CASE.goes_on_ms + 600, end_ms=CASE.end_ms + 600)
    assert outcome(long, [(2100, 2200), (5700, 5800)], TURN).cut_off


def test_a_turn_that_is_never_over_has_no_wait() -> None:
    assert outcome(CASE, [(2100, 2200)], TURN).wait_ms is None


def test_the_bound_is_clopper_and_pearsons() -> None:
    assert bound(0, 300) == pytest.approx(1 - 0.05 ** (1 / 300))
    assert binom.cdf(15, 300, bound(15, 300)) == pytest.approx(0.05)
    assert bound(3, 3) == 1
