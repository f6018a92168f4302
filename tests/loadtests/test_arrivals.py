"""Due times, against schedules worked by hand and against the distributions they claim to be."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy import stats

from configs.errors import InputError
from loadtests.arrivals import Spaced, Stage, Trace, due_times_s


def spaced(**fields: Any) -> Spaced:
    return Spaced(**fields)


def test_constant_is_even_from_zero() -> None:
    assert due_times_s(spaced(kind="constant", rate_per_s=4.0, duration_s=1.0), 0).tolist() == [0, 0.25, 0.5, 0.75]


def test_poisson_gaps_are_exponential() -> None:
    gaps = np.diff(due_times_s(spaced(kind="poisson", rate_per_s=50.0, duration_s=200.0), 7))
    assert stats.kstest(gaps, "expon", args=(0, 1 / 50)).pvalue > 0.01


@pytest.mark.parametrize("cv", [0.5, 3.0])
def test_gamma_gaps_have_their_mean_and_cv(cv: float) -> None:
    gaps = np.diff(due_times_s(spaced(kind="gamma", cv=cv, rate_per_s=100.0, duration_s=400.0), 3))
    assert gaps.mean() == pytest.approx(0.01, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.1)


def test_ramp_from_nothing() -> None:
    """From 0 to 2 a second in 10 s, t²/10 have arrived at t: the kth at the root of 10k."""
    due = due_times_s(Spaced(kind="constant", stages=(Stage(rate_per_s=0, to_per_s=2, duration_s=10),)), 0)
    assert due == pytest.approx([0, 3.16228, 4.47214, 5.47723, 6.32456, 7.07107, 7.74597, 8.36660, 8.94427, 9.48683])


def test_ramp_down_ends_with_its_stage() -> None:
    due = due_times_s(Spaced(kind="constant", stages=(Stage(rate_per_s=4, to_per_s=0, duration_s=5),)), 0)
    assert len(due) == 10
    # What is left to come falls as (5 - t)²·0.4: the last one is due when 1 is left.
    assert due[-1] == pytest.approx(5 - 2.5**0.5)


def test_steps() -> None:
    stages = (Stage(rate_per_s=1, duration_s=2), Stage(rate_per_s=0, duration_s=3), Stage(rate_per_s=2, duration_s=1))
    assert due_times_s(Spaced(kind="constant", stages=stages), 0).tolist() == [0, 1, 5, 5.5]


def test_a_seed_is_a_schedule() -> None:
    poisson = spaced(kind="poisson", rate_per_s=5.0, duration_s=20.0)
    assert due_times_s(poisson, 1).tolist() == due_times_s(poisson, 1).tolist()
    assert due_times_s(poisson, 1).tolist() != due_times_s(poisson, 2).tolist()


def test_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text("# seconds\n0\n0.5 # a burst\n\n0.5\n7\n")
    assert due_times_s(Trace(kind="trace", path=path), 0).tolist() == [0, 0.5, 0.5, 7]


@pytest.mark.parametrize(
    ("text", "line"), [("1\nx\n", "line 2"), ("1\n0.5\n", "line 2"), ("nan\n", "line 1"), ("-1\n", "line 1")]
)
def test_a_bad_trace_names_its_line(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(InputError, match=line):
        due_times_s(Trace(kind="trace", path=path), 0)


def test_an_empty_schedule_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="schedule is empty"):
        due_times_s(spaced(kind="constant", rate_per_s=0.0, duration_s=5.0), 0)
    (tmp_path / "trace").write_text("# nothing\n")
    with pytest.raises(InputError, match="schedule is empty"):
        due_times_s(Trace(kind="trace", path=tmp_path / "trace"), 0)


def test_too_many_are_refused() -> None:
    with pytest.raises(InputError, match="more than 1000000"):
        due_times_s(spaced(kind="poisson", rate_per_s=50_000.0, duration_s=3_600.0), 0)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "gamma", "rate_per_s": 1.0, "duration_s": 1.0},
        {"kind": "poisson", "cv": 2.0, "rate_per_s": 1.0, "duration_s": 1.0},
        {"kind": "poisson", "rate_per_s": 1.0},
        {"kind": "poisson"},
    ],
)
def test_half_a_schedule_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Spaced(**fields)
