"""What a request is reckoned at, and that the fleet charges by planning's function."""

from types import SimpleNamespace
from typing import Any

import pytest

from configs.deployment import load_deployment
from configs.schema import load
from planning import quotas
from planning.profile import Profile
from serve_apps.gateway import charges
from serve_apps.gateway.charges import Size, estimate_rt, resource_tokens, size_of


@pytest.fixture(scope="module")
def profile() -> Profile:
    return load(Profile, load_deployment().gateway.profile)


def body(**fields: Any) -> Any:
    return SimpleNamespace(**{"max_tokens": None, "n": 1} | fields)


def test_a_request_is_charged_what_plan_quotas_says(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resource_tokens(profile, 300, 150, 20) == quotas.charge(300, 0.5, 20, profile).resource_tokens
    monkeypatch.setattr(charges, "charge", lambda *_: SimpleNamespace(resource_tokens=7.0))
    assert resource_tokens(profile, 300, 150, 20) == 7.0
    assert estimate_rt(profile, Size(300, 20, 3)) == 21.0


def test_several_sequences_share_their_prompt(profile: Profile) -> None:
    one, three = (estimate_rt(profile, Size(500, 20, n)) for n in (1, 3))
    assert one < three < 3 * one


def test_what_is_longer_than_the_memory_is_charged_all_the_same(profile: Profile) -> None:
    assert resource_tokens(profile, 1e6, 0, 1e6) > 0
    assert resource_tokens(profile, 0, 0, 0) == 0


@pytest.mark.parametrize(
    ("asked", "prompt", "output", "sequences"),
    [
        (body(messages=[{"role": "user", "content": "x" * 300}], max_tokens=50), 108, 50, 1),
        (body(messages=[{"role": "user", "content": [{"type": "text", "text": "x" * 30}]}]), 18, 256, 1),
        (body(messages=[{"role": "assistant", "content": None}], max_tokens=5), 8, 5, 1),
        (body(prompt="x" * 30, max_tokens=5, n=4), 10, 5, 4),
        (body(prompt=[1, 2, 3], max_tokens=5), 3, 5, 1),
        (body(prompt=[[1, 2, 3], [4]], max_tokens=5), 2, 5, 2),
        (body(prompt=["x" * 30, "x" * 60], max_tokens=5), 15, 5, 2),
        (body(prompt="x" * 90_000, max_tokens=10**12), 2048, 1, 1),
        (body(prompt="x" * 300, max_tokens=-5), 100, 1, 1),
        (body(prompt="", max_tokens=0), 1, 1, 1),
        (body(messages=[{"content": "x"}], max_tokens=9, max_completion_tokens=4), 8 + 1 / 3, 4, 1),
    ],
)
def test_a_request_is_sized_by_its_text(asked: Any, prompt: float, output: float, sequences: int) -> None:
    size = size_of(asked, 2048, 256)
    assert (size.prompt_tokens, size.output_tokens, size.sequences) == (pytest.approx(prompt), output, sequences)
