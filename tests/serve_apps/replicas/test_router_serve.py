"""The router inside real Ray Serve, with replicas that compute nothing and wait for files that the tests write."""

import asyncio
import os
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system
# ruff: noqa: ASYNC110  # replicas are other processes: a file is the gate

BLOCK = 16
PREFIX_TOKENS = 320
# 1,000 tokens/s: the prefix saves 320 ms, so that with hysteresis 0.5 its home is left at 480 ms of waiting.
RATES = {
    "prefill_tokens_per_s": 1000.0,
    "max_sequences": 64,
    "kv_capacity_tokens": 100_000.0,
    "itl_base_s": 0.0,
    "itl_per_sequence_s": 0.0,
}


class Cheap:
    """Says who it is when `gates/<gate>` exists, and ends when `gates/<gate>.end` does."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    async def chat(self, body: dict[str, Any]) -> AsyncIterator[Any]:
        if body.get("die"):
            os._exit(1)
        await self.opened(body.get("gate"))
        yield ["data: " + str(os.getpid())]
        await self.opened(f"{body['gate']}.end" if body.get("gate") else None)
        yield ['data: {"usage": {"prompt_tokens": 1, "completion_tokens": 7}}']

    async def opened(self, gate: str | None) -> None:
        while gate and not (self.folder / gate).exists():
            await asyncio.sleep(0.01)


@pytest.fixture
def app(cluster: None, tmp_path: Path, wait_until: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """app(replicas=2, …): a handle on a deployment of its own and the router's policy behind it."""
    from ray import serve
    from ray.serve.config import RequestRouterConfig

    name = f"app-{uuid.uuid4().hex[:8]}"

    def make(replicas: int = 2, max_ongoing_requests: int = 100, **kwargs: Any) -> tuple[Any, Any]:
        deployment = serve.deployment(Cheap).options(
            num_replicas=replicas,
            max_ongoing_requests=max_ongoing_requests,
            ray_actor_options={"num_cpus": 0.1},
            health_check_period_s=1,
            graceful_shutdown_timeout_s=1,
            request_router_config=RequestRouterConfig(
                request_router_class="serve_apps.router:AffinityRouter",
                request_router_kwargs={
                    "model": "cheap", "path": None, "block_tokens": BLOCK, "context_tokens": 4096, "rates": RATES,
                    "route": {"hysteresis": 0.5}, "max_wait_ms": {}, "seed": 1,
                } | kwargs,
            ),
        )  # fmt: skip
        handle = serve.run(deployment.bind(str(tmp_path)), name=name, route_prefix=None)
        handle = handle.options(stream=True)
        assert list(handle.chat.remote({}))
        router = handle._router._asyncio_router.request_router
        wait_until(lambda: len(router._policy.loads) == replicas, "all replicas are known")
        return handle, router

    yield make
    serve.delete(name)


def ask(first: int = 0, suffix: int = 0, **more: Any) -> dict[str, Any]:
    """A token array: a prefix that `first` tells from others, and tokens of its own behind it."""
    tokens = [first * 1000 + i for i in range(PREFIX_TOKENS)]
    return {"prompt": [*tokens, *(1_000_000 + suffix * 1000 + i for i in range(100))], "max_tokens": 1, **more}


def replica_of(reply: Any) -> str:
    """Which replica answered a whole reply."""
    first, *_ = list(reply)
    return str(first[0])


def open_gate(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch()


def idle(router: Any) -> bool:
    return not router._tickets and all(
        load.sequences == 0 and sum(load.uncached_tokens.values()) == 0 for load in router._policy.loads.values()
    )


def test_a_prefix_stays_and_others_spread(app: Callable[..., Any], wait_until: Callable[..., Any]) -> None:
    handle, router = app(replicas=3)
    homes = {first: {replica_of(handle.chat.remote(ask(first, n))) for n in range(4)} for first in range(6)}
    assert all(len(found) == 1 for found in homes.values()), homes
    assert len({home for found in homes.values() for home in found}) > 1
    wait_until(lambda: idle(router), "nothing stays reserved")
    assert router._output_tokens == 7, "the replies' length is learnt from their usage"


def test_a_burst_fills_its_home_up_to_the_threshold_and_then_spills(
    app: Callable[..., Any], wait_until: Callable[..., Any], tmp_path: Path
) -> None:
    handle, router = app()
    home = replica_of(handle.chat.remote(ask(1)))
    replies = [handle.chat.remote(ask(1, n, gate="burst")) for n in range(10)]
    wait_until(lambda: sum(load.sequences for load in router._policy.loads.values()) == 10, "all are reserved")
    # 100 uncached tokens each, 100 ms: the sixth would wait 500 ms at home. The copy then takes its share.
    open_gate(tmp_path, "burst", "burst.end")
    served = Counter(map(replica_of, replies))
    assert 5 <= served[home] <= 7 and len(served) == 2, served
    wait_until(lambda: idle(router), "nothing stays reserved")


def test_the_threshold_is_plannings(
    app: Callable[..., Any], wait_until: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from planning.policies import route

    handle, router = app()
    home = replica_of(handle.chat.remote(ask(1)))
    monkeypatch.setattr(route, "saved_ms", lambda hit_tokens, prefill_tokens_per_s: 0.0)
    held = handle.chat.remote(ask(1, 1, gate="held"))  # 100 ms of work at home, and the prefix saves nothing now
    wait_until(lambda: not idle(router), "it is reserved")
    assert replica_of(handle.chat.remote(ask(1, 2))) != home
    open_gate(tmp_path, "held", "held.end")
    assert replica_of(held)


def test_the_first_token_frees_the_prefill_and_the_end_the_rest(
    app: Callable[..., Any], wait_until: Callable[..., Any], tmp_path: Path
) -> None:
    handle, router = app()

    def reserved() -> tuple[float, int]:
        loads = router._policy.loads.values()
        return sum(sum(load.uncached_tokens.values()) for load in loads), sum(load.sequences for load in loads)

    reply = handle.chat.remote(ask(1, gate="slow"))
    wait_until(lambda: reserved() == (421, 1), "the prompt is reserved")
    open_gate(tmp_path, "slow")
    next(iter(reply))
    wait_until(lambda: reserved() == (0, 1), "its prefill is done")
    open_gate(tmp_path, "slow.end")
    wait_until(lambda: idle(router), "it has ended")


def test_a_cancelled_request_gives_its_reservation_back(
    app: Callable[..., Any], wait_until: Callable[..., Any]
) -> None:
    handle, router = app()
    reply = handle.chat.remote(ask(1, gate="never"))
    wait_until(lambda: not idle(router), "it is reserved")
    reply.cancel()
    wait_until(lambda: idle(router), "nothing stays reserved")


def test_a_replica_that_dies_takes_its_reservations_and_its_prefixes_along(
    app: Callable[..., Any], wait_until: Callable[..., Any], tmp_path: Path
) -> None:
    from ray.exceptions import RayActorError

    handle, router = app()
    home = replica_of(handle.chat.remote(ask(1)))
    before = set(router._policy.loads)
    held = handle.chat.remote(ask(1, 1, gate="held"))
    wait_until(lambda: not idle(router), "it is reserved")
    with pytest.raises(RayActorError):
        list(handle.chat.remote(ask(1, 2, die=True)))
    with pytest.raises(RayActorError):
        list(held)
    survivor = replica_of(handle.chat.remote(ask(1, 3)))
    assert survivor != home
    wait_until(lambda: len(router._policy.loads) == 2 and set(router._policy.loads) != before, "it is replaced")
    assert replica_of(handle.chat.remote(ask(1, 4))) == survivor, "nothing attracts to the new one"
    wait_until(lambda: idle(router), "nothing stays reserved")


def test_a_replica_without_room_is_passed_over(
    app: Callable[..., Any], wait_until: Callable[..., Any], tmp_path: Path
) -> None:
    handle, router = app(max_ongoing_requests=1)
    home = replica_of(handle.chat.remote(ask(1)))
    held = handle.chat.remote(ask(1, 1, gate="held"))
    wait_until(lambda: not idle(router), "it is reserved")
    assert replica_of(handle.chat.remote(ask(1, 2))) != home
    waiting = [handle.chat.remote(ask(1, n, gate="held")) for n in (3, 4)]
    open_gate(tmp_path, "held", "held.end")
    assert replica_of(held) == home
    assert all(replica_of(reply) for reply in waiting), "those that found no room at all come in later"
    wait_until(lambda: idle(router), "nothing stays reserved")


def test_who_would_wait_too_long_is_refused_at_once(
    app: Callable[..., Any], wait_until: Callable[..., Any], tmp_path: Path
) -> None:
    from planning.policies.route import Overloaded

    handle, router = app(replicas=1, max_wait_ms={"0": 250})
    held = [handle.chat.remote(ask(n, gate="held")) for n in range(1)]
    wait_until(lambda: not idle(router), "it is reserved")
    with pytest.raises(Overloaded) as refused:
        list(handle.chat.remote(ask(2)))
    assert refused.value.wait_ms > 250
    # Batch has time. It waits behind, and the refused one left nothing behind.
    later = handle.chat.remote(ask(3, priority=10))
    open_gate(tmp_path, "held", "held.end")
    assert replica_of(later) and all(map(replica_of, held))
    wait_until(lambda: idle(router), "nothing stays reserved")
