"""Tests that `make test` leaves out, run by a part: what became of each."""

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


class Outcomes:
    """A pytest plugin that keeps what became of each test."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition("::")[2]
        if report.when == "call" or report.outcome != "passed":
            self.of[name] = report.outcome


def run(say: Callable[[str], None], *paths: str) -> dict[str, str]:
    """The tests in these folders or files below tests/, the long ones too: test -> passed, failed or skipped."""
    outcomes = Outcomes()
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        pytest.main(["-q", "-m", "system", *(str(TESTS / path) for path in paths)], plugins=[outcomes])
    if "failed" in outcomes.of.values():
        say(output.getvalue())
    return outcomes.of


def passed(outcomes: dict[str, str]) -> str:
    """For a part's section."""
    return f"{sum(outcome == 'passed' for outcome in outcomes.values())} of {len(outcomes)} passed"


def short(outcomes: dict[str, str]) -> list[str]:
    """Those that did not pass."""
    return [f"{test}: {outcome}" for test, outcome in outcomes.items() if outcome != "passed"]
