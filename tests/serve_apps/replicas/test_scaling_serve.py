"""The autoscaling policy inside real Ray Serve: replicas that start when a file says so and hold their replies.

In `make verify PART=router`: Ray's autoscaler waits in real minutes.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# ruff: noqa: ASYNC110  # replicas are other processes: a file is the gate
pytestmark = [pytest.mark.system, pytest.mark.long]

RATE = 1000.0  # resource tokens a second


class Slow:
    """A replica that comes up once `up-<n>` exists for it, the n-th of its deployment."""

    def __init__(self, folder: str) -> None:
        from serve_apps.autoscaling_stats import WorkTally

        self.folder = Path(folder)
        self.tally = WorkTally(lambda body: body["rt"])

    async def chat(self, body: dict[str, Any]) -> AsyncGenerator[Any, None]:
        async for item in self.tally.follow(self.held(body), body, body.get("batch", False)):
            yield item

    async def held(self, body: dict[str, Any]) -> AsyncGenerator[Any, None]:
        yield "first"
        while (gate := body.get("gate")) and not (self.folder / gate).exists():
            await asyncio.sleep(0.02)
        yield "last"

    def record_autoscaling_stats(self) -> dict[str, float]:
        if (self.folder / "outage").exists():
            raise RuntimeError("no metrics")
        return self.tally.stats()


class Gated(Slow):
    """Not the first replica but all others load for as long as there is no file `load`."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        first = self.folder / "first"
        try:
            first.touch(exist_ok=False)
        except FileExistsError:
            while not (self.folder / "load").exists():
                time.sleep(0.05)


SCALE = {
    "min_replicas": 1, "max_replicas": 8, "utilization_ceiling": 0.8, "headroom_fraction": 0.0, "clear_s": 1000.0,
    "smooth_s": 0.5, "look_back_s": 4.0, "hold_s": 3.0,
}  # fmt: skip


def policy(**changes: Any) -> dict[str, Any]:
    return {
        "policy_function": "serve_apps.autoscaling:HeadroomPolicy",
        "policy_kwargs": {"scale": SCALE | changes, "prefill_tokens_per_s": RATE, "interval_s": 0.5, "stale_s": 2.0},
    }


@pytest.fixture
def app(cluster: None, tmp_path: Path) -> Iterator[Callable[..., tuple[Any, Callable[[], dict[str, int]]]]]:
    from ray import serve

    name = f"app-{uuid.uuid4().hex[:8]}"

    def make(cls: type = Slow, **changes: Any) -> tuple[Any, Callable[[], dict[str, int]]]:
        deployment = serve.deployment(cls).options(
            max_ongoing_requests=1000,
            ray_actor_options={"num_cpus": 0.1},
            graceful_shutdown_timeout_s=60,
            graceful_shutdown_wait_loop_s=0.2,
            autoscaling_config={
                "min_replicas": 1, "max_replicas": 8, "upscale_delay_s": 0.0, "downscale_delay_s": 0.0,
                "policy": policy(**changes),
            },
        )  # fmt: skip
        handle = serve.run(deployment.bind(str(tmp_path)), name=name, route_prefix=None).options(stream=True)

        def states() -> dict[str, int]:
            found = serve.status().applications[name].deployments[cls.__name__].replica_states
            return {str(getattr(state, "value", state)): count for state, count in found.items()}

        return handle, states

    yield make
    serve.delete(name)


def total(states: dict[str, int]) -> int:
    return states.get("RUNNING", 0) + states.get("STARTING", 0)


async def offer(handle: Any, busy_replicas: float, until: Callable[[], Any], within_s: float = 240.0) -> None:
    """So much work arrives all the time until something holds, however slow this machine is."""
    deadline = told_s = time.monotonic()
    deadline += within_s
    while not until():
        assert time.monotonic() < deadline
        now_s = time.monotonic()
        reply = handle.chat.remote({"rt": busy_replicas * RATE * (now_s - told_s)})
        told_s = now_s
        assert [item async for item in reply] == ["first", "last"]
        await asyncio.sleep(0.1)


async def test_a_burst_is_asked_for_once_however_long_its_replicas_load(
    app: Callable[..., Any], tmp_path: Path
) -> None:
    handle, states = app(Gated, max_replicas=8)
    seen: list[int] = []

    def enough() -> bool:
        seen.append(total(states()))
        return seen[-1] > 1 and len(seen) - next(i for i, n in enumerate(seen) if n > 1) > 25

    await offer(handle, 3, enough)
    assert states()["RUNNING"] == 1, "the others load"
    # Three busy replicas over 0.8 are four; one more where a reading catches a lump of the work.
    assert 3 <= max(seen) <= 6, seen
    (tmp_path / "load").touch()
    await offer(handle, 1, lambda: states().get("RUNNING", 0) >= 3)


async def test_going_down_cuts_no_stream_and_stops_at_the_floor(
    app: Callable[..., Any], tmp_path: Path, wait_until: Callable[..., Any]
) -> None:
    handle, states = app()
    await offer(handle, 4, lambda: states().get("RUNNING", 0) >= 3)
    streams = [handle.chat.remote({"rt": 1.0, "gate": "end"}) for _ in range(12)]
    firsts = [await stream.__anext__() for stream in streams]
    assert set(firsts) == {"first"}
    await asyncio.to_thread(wait_until, lambda: states().get("RUNNING", 0) == 1, "no traffic ends at the floor")
    assert states().get("STOPPING", 0) >= 1, "those with streams wait for them"
    (tmp_path / "end").touch()
    assert [await stream.__anext__() for stream in streams] == ["last"] * 12
    await asyncio.to_thread(wait_until, lambda: not states().get("STOPPING"), "then they end")
    await asyncio.sleep(2)
    assert states() == {"RUNNING": 1}


async def test_an_outage_of_the_metrics_takes_nothing_away(
    app: Callable[..., Any], tmp_path: Path, wait_until: Callable[..., Any]
) -> None:
    handle, states = app()
    await offer(handle, 3, lambda: states().get("RUNNING", 0) >= 3)
    before = total(states())
    (tmp_path / "outage").touch()
    over_s = time.monotonic() + SCALE["look_back_s"] + 4
    await offer(handle, 3, lambda: time.monotonic() > over_s)
    assert total(states()) >= before
    (tmp_path / "outage").unlink()
    await asyncio.to_thread(wait_until, lambda: total(states()) == 1, "with metrics again the quiet is seen")


async def test_at_application_level_two_deployments_move_together(cluster: None) -> None:
    from ray import serve
    from ray.serve.context import _get_global_client
    from ray.serve.schema import ServeDeploySchema

    name = f"joint-{uuid.uuid4().hex[:8]}"
    settings = policy()
    settings["policy_kwargs"]["followers"] = {"Voice": 2.0}
    application = {
        "name": name, "route_prefix": None, "import_path": "tests.support.joint_app:build",
        "autoscaling_policy": settings,
    }  # fmt: skip
    _get_global_client().deploy_apps(ServeDeploySchema.model_validate({"applications": [application]}))

    def states() -> dict[str, int]:
        found = serve.status().applications[name]
        assert found.status != "DEPLOY_FAILED", found.message
        return {
            deployment: sum(count for state, count in of.replica_states.items() if state in ("RUNNING", "STARTING"))
            for deployment, of in found.deployments.items()
        }

    def together() -> bool:
        counts = states()
        return counts.get("Llm", 0) >= 2 and counts["Voice"] == 2 * counts["Llm"]

    deadline = time.monotonic() + 240
    while serve.status().applications[name].status != "RUNNING":
        assert states() is not None and time.monotonic() < deadline
        await asyncio.sleep(0.2)
    handle = serve.get_deployment_handle("Voice", name)
    told_s = time.monotonic()
    while not together():
        assert time.monotonic() < deadline, states()
        now_s = time.monotonic()
        await handle.work.remote(4 * RATE * (now_s - told_s))  # four replicas' work, however slow this machine is
        told_s = now_s
        await asyncio.sleep(0.1)
    serve.delete(name)
