"""A comparison's plan, its questions, and its figures against scripted pipelines whose every response is known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from configs.errors import InputError
from configs.schema import parse
from loadtests.peers.compare import PEER, PRODUCT, TUNED, _level, summaries
from loadtests.peers.load import PeerLoad, PlannedCall, Question, blocks, read_peer_load
from loadtests.peers.table import markdown
from loadtests.truth.table import CLIP_RATE, tones
from loadtests.wav import Clip

LOAD = read_peer_load()


@given(turns=st.integers(1, 200), callers=st.integers(1, 8))
def test_every_turn_is_planned_once_and_questions_go_round(turns: int, callers: int) -> None:
    planned = blocks(LOAD, turns, callers)
    asked = [number for block in planned for call in block for number, _ in call.turns]
    assert asked == [number % len(LOAD.questions) for number in range(turns)]
    assert all(len(block) == callers for block in planned[:-1])
    assert all(1 <= len(call.turns) <= LOAD.turns_a_call for block in planned for call in block)


def test_the_questions_are_many_and_a_third_has_a_pause() -> None:
    paused = [question for question in LOAD.questions if question.pause_s]
    assert len({question.parts for question in LOAD.questions}) >= 30
    assert len(paused) * 3 >= len(LOAD.questions)


def test_every_question_lasts_1_to_8_s(say: Callable[[str], Clip]) -> None:
    longest = max(LOAD.questions, key=lambda question: len(" ".join(question.parts)) + 15 * (question.pause_s or 0))
    shortest = min(LOAD.questions, key=lambda question: len(" ".join(question.parts)))
    for question in (longest, shortest):
        assert 1 <= question.clip([say(part) for part in question.parts]).duration_s <= 8


def test_a_pause_stands_between_its_parts() -> None:
    part = Clip(np.full((1000, 1), 7, dtype=np.int16), 1000)
    clip = Question(text="a", rest="b", pause_s=0.5).clip([part, part])
    assert clip.samples[:, 0].tolist() == [7] * 1000 + [0] * 500 + [7] * 1000
    with pytest.raises(InputError, match=r"0\.5 s"):
        Question(text="a").clip([Clip(part.samples[:500], 1000)])


def test_a_pause_without_a_rest_is_refused() -> None:
    with pytest.raises(InputError, match=r"questions\.0"):
        parse(PeerLoad, {"questions": [{"text": "What?", "pause_s": 1.0}]}, "peers")


def test_the_figures_of_scripted_pipelines(voice_server: Callable[..., str], tmp_path: Path) -> None:
    """The product answers after 300 ms, the peer after 900 and too late in turn; the tuned one, every second turn."""
    load = LOAD.model_copy(update={"reply_timeout_s": 2.0})
    clip = tmp_path / "clip.wav"
    soundfile.write(clip, tones(((400, 90), (300, 100))), CLIP_RATE)
    answers: dict[str, Any] = {"answer_ms": ((400, 0),)}
    urls = {
        PRODUCT: voice_server(response_ms=(300,), **answers),
        PEER: voice_server(response_ms=(900, 2200), **answers),
        TUNED: voice_server(response_ms=(300,), unanswered_every=2, **answers),
    }
    turn = (0, 0.4)
    block = [PlannedCall(0.0, (turn, turn)), PlannedCall(0.2, (turn, turn))]
    _level(urls, load, [block], [clip], tmp_path / "out" / "2", lambda line: None)
    found = summaries(tmp_path / "out", load, None, lambda line: None)["2"]
    assert found[PRODUCT]["response_ms"]["p50"] == pytest.approx(300, abs=25)
    assert found[PEER]["response_ms"]["max"] == 2000
    assert found[PEER]["unanswered"] == 2
    assert found[TUNED]["unanswered"] == 2
    assert found[TUNED]["response_ms"]["max"] == 2000
    assert [found[name]["turns"] for name in urls] == [4, 4, 4]
    assert found[PRODUCT]["discarded"] == {}
    assert "| stock pipecat | 4 | 14" in markdown({"2": found})


def test_turns_that_a_full_pipeline_refuses_are_counted_by_name(
    voice_server: Callable[..., str], tmp_path: Path
) -> None:
    clip = tmp_path / "clip.wav"
    soundfile.write(clip, tones(((400, 90),)), CLIP_RATE)
    url = voice_server(busy=True)
    turn = (0, 0.4)
    block = [PlannedCall(0.0, (turn,)), PlannedCall(0.1, (turn, turn))]
    _level({PRODUCT: url, PEER: url, TUNED: url}, LOAD, [block], [clip], tmp_path / "2", lambda line: None)
    found = summaries(tmp_path, LOAD, None, lambda line: None)["2"][PRODUCT]
    assert found["discarded"] == {"busy": 3}
    assert found["response_ms"] == {"p50": None, "p95": None, "max": None}
