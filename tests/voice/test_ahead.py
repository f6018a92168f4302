"""What the engine is given of a turn before its end."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.call import dial
from loadtests.wav import Clip
from tests.support.calls import is_type
from tests.support.clips import join
from tests.support.stages import Stages, serving
from voice.ahead import STEP_TOKENS, Ahead

BLOCK_TOKENS, TEMPLATE_TOKENS = 32, 8


@given(st.lists(st.integers(1, 40), max_size=60))
def test_what_is_computed_ahead_is_at_most_twice_the_turn(growth: list[int]) -> None:
    """The engine's cache holds whole blocks: each request computes its last block and the template's end again."""
    ahead, tokens, computed, cached = Ahead(), 0, 0, 0
    for more in growth:
        tokens += more
        if ahead.grown(tokens):
            computed += tokens - cached + TEMPLATE_TOKENS
            cached = tokens // BLOCK_TOKENS * BLOCK_TOKENS
    assert computed <= 2 * tokens


def test_a_short_question_is_not_worth_it() -> None:
    assert Ahead().grown(STEP_TOKENS - 1) == 0


@pytest.mark.system
async def test_a_long_turn_is_taken_in_while_it_is_spoken(say: Callable[[str], Clip]) -> None:
    part = say("Paris is the capital of France and has a long history that goes back to the Romans.")
    stages = Stages(asr=0.05, interim=0.05, words=lambda duration_s: " ".join(["word"] * int(duration_s * 20)))
    async with serving(stages) as url:
        call = await dial(url)
        try:
            await call.say(join(part, part))
            assert await call.wait_for(is_type("bot-started-speaking"), 20) is not None
        finally:
            await call.hang_up()
    assert 1 <= len(stages.prefilled) <= 3
    begun, asked = stages.prefilled[0][-1]["content"], stages.asked[-1][-1]["content"]
    assert asked.startswith(begun) and len(begun) < len(asked)
    assert stages.prefilled[0][:-1] == stages.asked[-1][:-1]
