"""The bill: by plan price's list, from the books."""

import json
from pathlib import Path

import pytest

from cli.usage import bill
from configs.deployment import load_deployment
from configs.gateway import GatewayConfig
from planning.price import PriceList, PriceScenario, price_list
from planning.topics import read_scenario
from serve_apps.gateway.books import Books, Entry, Total
from tests.support.cli import run_firstclause

TOTAL = Total("acme", "m", 3, 1000, 400, 100, 900.0)


def prices() -> PriceList:
    scenario = read_scenario("price", load_deployment().gateway.prices)
    assert isinstance(scenario, PriceScenario)
    return price_list(scenario)


def test_a_line_is_priced_by_planning() -> None:
    line = bill(TOTAL, PriceList(
        input_usd_per_million_tokens=10, cached_usd_per_million_tokens=1, output_usd_per_million_tokens=100
    ))  # fmt: skip
    assert (line["input_tokens"], line["cached_tokens"], line["output_tokens"]) == (600, 400, 100)
    assert line["usd"] == pytest.approx((600 * 10 + 400 * 1 + 100 * 100) / 1e6)


def test_the_command_bills_what_the_books_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTCLAUSE_CACHE", str(tmp_path))
    assert run_firstclause("usage").returncode == 3
    books = Books(GatewayConfig().store_url())
    books.settle([Entry(f"r{i}", "acme", "m", None, 300.0, 1000, 400, 100) for i in range(2)])
    books.settle([Entry("r9", "other", "m", None, 1.0, 1, 0, 1)])
    books.close()
    document = json.loads(run_firstclause("usage", "--tenant", "acme", "--json").stdout)
    (line,) = document["lines"]
    assert line["requests"] == 2 and line["usd"] == pytest.approx(prices().usd(2000, 0.4, 200))
    assert run_firstclause("usage", "--tenant", "acme", "--until", "2020-01-01").returncode == 3
