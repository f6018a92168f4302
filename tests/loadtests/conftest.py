"""Fixtures: scripted servers as processes, and runs of the real generator against them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from loadtests.truth.script import LlmScript
from loadtests.truth.table import scripted
from loadtests.truth.voice_script import VoiceScript


@pytest.fixture
def llm_server() -> Iterator[Callable[..., str]]:
    """Start a scripted OpenAI-compatible server; returns its URL."""
    with ExitStack() as stack:

        def start(**script: Any) -> str:
            return stack.enter_context(scripted("loadtests.truth.llm_server", LlmScript(**script)))

        yield start


@pytest.fixture
def voice_server() -> Iterator[Callable[..., str]]:
    """Start a scripted voice application; returns its URL."""
    with ExitStack() as stack:

        def start(**script: Any) -> str:
            return stack.enter_context(scripted("loadtests.truth.voice_server", VoiceScript(**script)))

        yield start
