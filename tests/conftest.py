"""What all tests share: speech to call with, and REQUIRE_ALL.

REQUIRE_ALL=1 turns every skip into a failure: on a build server that has everything, nothing is skipped unseen.
"""

import os
import signal
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from loadtests.wav import Clip, read_clip


def pytest_configure() -> None:
    """Started in the background, a process ignores Ctrl-C, and so would all that the tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _required((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _required((yield))


def _required(report: Any) -> Any:
    if report.skipped and os.environ.get("REQUIRE_ALL") == "1" and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"REQUIRE_ALL=1, and this was not run. {reason}"
    return report


@pytest.fixture(scope="session")
def say() -> Callable[[str], Clip]:
    """Text -> speech by the Piper voice, shifted in pitch."""

    @cache
    def spoken(text: str) -> Clip:
        from cli.talk import speak

        # Tests run inside an event loop; this has its own.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(speak, [text]).result()[0]

    return spoken


@pytest.fixture(scope="session")
def speech_dir() -> Path:
    """The folder with the recordings."""
    folder = os.environ.get("SPEECH_DIR")
    if not folder:
        pytest.skip("SPEECH_DIR is not set: it names the folder with the recordings")
    return Path(folder)


@pytest.fixture(scope="session")
def recording(speech_dir: Path) -> Callable[[str], Clip]:
    """A recording of the speech folder, by its name."""
    return lambda name: read_clip(speech_dir / name)
