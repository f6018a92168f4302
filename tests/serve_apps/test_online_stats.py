"""What the harvest is told of an engine's callers."""

from types import SimpleNamespace
from typing import Any

import pytest

from serve_apps import online_stats
from serve_apps.gateway.meter import Account
from serve_apps.online_stats import OnlineTally


class Requests:
    """Stands for the meter: what is here, and what has ended."""

    def __init__(self) -> None:
        self.here: list[Account] = []
        self.gone: list[Account] = []

    def live(self) -> list[Account]:
        return self.here

    def take_longest_step_ms(self) -> float:
        return 80.0

    def ended(self, since_s: float) -> list[Account]:
        return [account for account in self.gone if (account.ended_s or 0) >= since_s]


def account(name: str, begun_s: float, ttft_s: float | None, tenant_class: str = "voice") -> Account:
    stats = SimpleNamespace(first_token_ts=0 if ttft_s is None else 1, first_token_latency=ttft_s)
    states: list[Any] = [SimpleNamespace(stats=stats)]
    return Account(name, "t", tenant_class, "m", None, begun_s, states=states)


def test_callers_are_counted_once_and_batch_never(monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(online_stats.time, "monotonic", lambda: now.s)
    requests = Requests()
    tally = OnlineTally(requests)  # type: ignore[arg-type]
    requests.here = [account("a", 100.5, 0.08), account("b", 101, None), account("row", 100, 0.5, "batch")]
    now.s = 102
    assert tally.look() == {"ttft_ms": [80.0], "waiting": 1, "busy_share": 0.75, "longest_step_ms": 80.0}
    ended = account("b", 101, 0.2)
    ended.ended_s = 103
    requests.here, requests.gone = requests.here[:1], [ended]
    now.s = 104
    assert tally.look() == {"ttft_ms": [200.0], "waiting": 0, "busy_share": 1.0, "longest_step_ms": 80.0}
    requests.here = []
    now.s = 106
    assert tally.look() == {"ttft_ms": [], "waiting": 0, "busy_share": 0.0, "longest_step_ms": 80.0}
