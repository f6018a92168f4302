"""A stage that takes longer is found in its own line, and in no other: through the whole pipeline, on fakes.

The models are faked so that each stage takes a known time; hearing, turn taking, gate, playout and the wire are real.
"""

from collections.abc import Callable

import numpy as np
import pytest

from loadtests.call import dial
from loadtests.conversation import converse
from loadtests.wav import Clip
from tests.support.stages import BASE_S, Stages, serving

pytestmark = pytest.mark.system

DELAY_S = 0.5
"""Far more than a busy machine adds to a line by itself."""


async def lines_ms(stages: Stages, question: Clip) -> dict[str, float]:
    """The median lines of three turns."""
    async with serving(stages) as url:
        call = await dial(url)
        turns = [turn async for turn in converse(call, [question] * 3)]
        await call.hang_up()
    assert all(turn.response_ms is not None for turn in turns)
    for turn in turns:
        assert sum(turn.lines_ms.values()) == pytest.approx(turn.response_ms, abs=0.5)
    return {line: float(np.median([turn.lines_ms[line] for turn in turns])) for line in turns[0].lines_ms}


async def test_a_delay_is_found_in_its_line(say: Callable[[str], Clip]) -> None:
    question = say("How many legs does a spider have?")
    before = await lines_ms(Stages(), question)
    for stage in ("asr", "llm_first_token", "clause", "tts"):
        after = await lines_ms(Stages(**{stage: BASE_S + DELAY_S}), question)
        moved = {line: after[line] - before[line] for line in before}
        assert max(moved, key=lambda line: moved[line]) == stage
        assert moved[stage] == pytest.approx(1000 * DELAY_S, rel=0.45)
