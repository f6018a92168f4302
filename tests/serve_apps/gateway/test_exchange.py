"""A reply's way back: what breaks behind its first piece is told as an event, and [DONE] is never false."""

import json
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from configs.deployment import load_deployment
from configs.schema import load
from configs.tenants import Quota, Tenant, TenantConfig
from planning.policies.route import Overloaded
from planning.profile import Profile
from serve_apps.gateway.admission import Admission
from serve_apps.gateway.books import Books
from serve_apps.gateway.charges import Size
from serve_apps.gateway.errors import ApiError, InvalidKey
from serve_apps.gateway.report import CachedTokens, Prefilled, Report, Usage
from telemetry.clocks import Clocks

with warnings.catch_warnings(action="ignore"):  # Ray's and vLLM's own, as they are imported
    from ray.exceptions import ActorDiedError

    from serve_apps.gateway.exchange import Exchange

TENANT = Tenant("acme", TenantConfig(quota=Quota(rate_rt_per_s=1e-6, burst_rt=1000)))
ROLE = 'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n'
WORD = 'data: {"choices": [{"delta": {"content": "Paris"}}]}\n\n'
BROKEN = 'data: {"error": {"message": "secret detail", "type": "InternalServerError", "code": 500}}\n\n'
DONE = "data: [DONE]\n\n"
REPORT = Report(Usage(10, 2, CachedTokens(0)), 25.0, Clocks(engine_ttft_ms=50.0))


class Method:
    """Stands for a handle's method: yields the items, raises the exceptions among them."""

    def __init__(self, *items: Any) -> None:
        self._items = iter(items)
        self.cancelled = False

    def remote(self, *_: Any) -> "Method":
        return self

    async def _fetch_future_result_async(self) -> None:
        return None

    async def __anext__(self) -> Any:
        item = next(self._items, StopAsyncIteration())
        if isinstance(item, Exception):
            raise item
        return item

    def cancel(self) -> None:
        self.cancelled = True


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    books = Books(f"sqlite:///{tmp_path / 'books.db'}")
    yield books
    books.close()


@pytest.fixture
async def exchange(books: Books) -> AsyncIterator[Exchange]:
    admission = Admission(books, load(Profile, load_deployment().gateway.profile), lambda: (4, 1e9, 1), 10)
    admitted = await admission.enter("r1", TENANT, Size(10, 10))
    yield Exchange(admission, admitted, "m", {"read_s": 0.0, "recheck": lambda: None})
    assert admission.taken == 0


async def streamed(exchange: Exchange, *items: Any) -> str:
    method = Method(*items)
    try:
        await exchange.begin(method)
        text = b"".join([piece async for piece in exchange.pieces(30)]).decode()
    finally:
        await exchange.end()
    assert method.cancelled == (exchange.report is None)
    return text


def last_error(text: str) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(text.strip().split("\n\n")[-1].removeprefix("data: "))["error"]
    return error


async def test_a_whole_reply_ends_with_done_and_its_clocks(exchange: Exchange) -> None:
    exchange.wants_clocks = True
    text = await streamed(exchange, [ROLE], Prefilled(), [WORD], [DONE], REPORT)
    *_, clocks, done = text.strip().split("\n\n")
    assert done == "data: [DONE]" and text.count("[DONE]") == 1
    assert json.loads(clocks.removeprefix("data: "))["clocks"]["engine_ttft_ms"] == 50.0
    assert exchange.clocks.server_ttft_ms is not None


async def test_the_engines_error_inside_a_stream_is_the_last_event(exchange: Exchange) -> None:
    text = await streamed(exchange, [ROLE], [WORD], [BROKEN], [DONE], REPORT)
    assert last_error(text)["type"] == "server_error" and "secret" not in text and "[DONE]" not in text


async def test_a_replica_lost_in_mid_stream_is_told_and_not_charged(exchange: Exchange, books: Books) -> None:
    text = await streamed(exchange, [ROLE], [WORD], ActorDiedError())
    assert last_error(text)["code"] == "unavailable" and "[DONE]" not in text
    assert books.level_rt("acme") == pytest.approx(1000)


async def test_a_stream_that_just_stops_is_no_whole_reply(exchange: Exchange) -> None:
    text = await streamed(exchange, [ROLE], [WORD])
    assert last_error(text)["code"] == "internal_error" and "[DONE]" not in text


async def test_a_revoked_key_ends_the_stream(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serve_apps.gateway.exchange.RECHECK_S", -1.0)

    def revoked() -> None:
        raise InvalidKey("revoked")

    exchange._state["recheck"] = revoked
    assert last_error(await streamed(exchange, [ROLE], [WORD], [WORD]))["code"] == "invalid_api_key"


@pytest.mark.parametrize(
    ("item", "status"),
    [
        ([BROKEN], 500),
        (ActorDiedError(), 503),
        (Overloaded(1500), 503),
        (ValueError("inside"), 500),
    ],
)
async def test_what_breaks_ahead_of_the_first_piece_is_a_status(exchange: Exchange, item: Any, status: int) -> None:
    with pytest.raises(ApiError) as refused:
        await streamed(exchange, item)
    assert refused.value.status == status and "inside" not in str(refused.value)
    assert ("retry-after" in refused.value.headers()) == (status == 503)


async def test_a_models_words_are_never_taken_for_an_error(exchange: Exchange) -> None:
    sly = 'data: {"choices": [{"delta": {"content": "data: {\\"error\\": 1} data: [DONE]"}}]}\n\n'
    text = await streamed(exchange, [sly], [DONE], REPORT)
    assert text.endswith(DONE) and sly in text
