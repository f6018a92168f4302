"""A real Ray cluster of three nodes, each a network namespace: deployed to, upgraded, broken and attacked.

The application is a stand-in: what is tested is how it gets there and stays. test_product.py deploys the product.
"""

import asyncio
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.cluster import DASHBOARD, Cluster, cluster
from tests.support.ship_stand_in import code

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

CPU, SPARE = {"node-kind": "cpu"}, {"node-kind": "spare"}


@pytest.fixture(scope="module")
def fleet() -> Iterator[Cluster]:
    """A head that runs no replica, and two workers that may."""
    with cluster() as made:
        made.add("head", cpus=0)
        made.add("one", 3, CPU)
        made.add("two", 3, CPU)
        yield made


@pytest.fixture(scope="module")
def parcel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code that is sent: the same for every deploy."""
    return code(tmp_path_factory.mktemp("code"))


@pytest.fixture(scope="module")
def ship(fleet: Cluster, parcel: Path) -> Callable[..., dict[str, Any]]:
    def deploy(arguments: dict[str, Any], *options: str, **environment: str) -> dict[str, Any]:
        done = fleet.run(*command(parcel, arguments), *options, **environment)
        assert done.returncode == 0, done.stderr
        outcome: dict[str, Any] = json.loads(done.stdout)
        return outcome | {"said": done.stderr}

    return deploy


def command(parcel: Path, arguments: dict[str, Any]) -> list[str]:
    return [sys.executable, "-m", "tests.support.ship_stand_in", str(parcel), json.dumps(arguments)]


def version(number: str, **more: Any) -> dict[str, Any]:
    return {"version": number, "replicas": 2, "nodes": CPU} | more


class Load:
    """Requests at a steady rate from the caller's machine through one node, until it is stopped."""

    def __init__(self, fleet: Cluster, address: str, per_s: float = 10) -> None:
        self.answers: list[tuple[float, dict[str, Any] | str]] = []
        self._fleet, self._url, self._period_s = fleet, f"http://{address}:8000/", 1 / per_s
        self._stopping = False
        self._thread: Any = None

    def __enter__(self) -> "Load":
        import threading

        self._thread = threading.Thread(target=lambda: self._fleet.caller.inside(lambda: asyncio.run(self._run())))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._thread.join()

    def failures(self) -> list[str]:
        return [answer for _, answer in self.answers if isinstance(answer, str)]

    def answered(self) -> list[dict[str, Any]]:
        return [answer for _, answer in self.answers if isinstance(answer, dict)]

    async def _run(self) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client, asyncio.TaskGroup() as group:
            while not self._stopping:
                group.create_task(self._ask(client))
                await asyncio.sleep(self._period_s)

    async def _ask(self, client: httpx.AsyncClient) -> None:
        begun_s = time.monotonic()
        answer: dict[str, Any] | str
        try:
            reply = await client.get(self._url, params={"seconds": 0.2})
            answer = reply.json() if reply.status_code == 200 else f"{reply.status_code} {reply.text[:200]}"
        except httpx.HTTPError as error:
            answer = repr(error)
        self.answers.append((begun_s, answer))


def test_a_deploy_serves_through_every_node_and_a_second_changes_nothing(
    fleet: Cluster, ship: Callable[..., dict[str, Any]]
) -> None:
    first = ship(version("1"))
    assert first["outcome"] == "serving", first
    assert len(first["nodes"]) == 3
    asked = {name: who(fleet, host.address) for name, host in fleet.nodes.items() for _ in range(4)}
    assert {answer["version"] for answer in asked.values()} == {"1"}
    assert asked["head"]["node"] in (fleet.nodes["one"].address, fleet.nodes["two"].address), "placed by its label"

    again = ship(version("1"))
    assert again["outcome"] == "unchanged"
    assert {answer["pid"] for answer in asked.values()} <= replica_pids(fleet), "the same processes serve"


def test_a_rolling_upgrade_fails_no_request_and_a_second_deploy_meanwhile_is_told_to_wait(
    fleet: Cluster, ship: Callable[..., dict[str, Any]], parcel: Path
) -> None:
    with Load(fleet, fleet.nodes["one"].address) as load:
        upgrade = subprocess.Popen(
            fleet.head.command(*command(parcel, version("2"))), env=fleet.environment, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        assert upgrade.stdout is not None and upgrade.stderr is not None
        while "deploying" not in (line := upgrade.stderr.readline()):
            assert line, upgrade.stdout.read()
        busy = ship(version("3"))
        outcome = json.loads(upgrade.communicate(timeout=300)[0])
    assert busy["outcome"] == "busy" and "another deploy" in busy["problems"][0]
    assert outcome["outcome"] == "serving"
    assert load.failures() == []
    versions = Counter(answer["version"] for answer in load.answered())
    assert set(versions) == {"1", "2"} and load.answered()[-1]["version"] == "2"


def test_a_version_that_does_not_start_is_rolled_back_and_nobody_notices(
    fleet: Cluster, ship: Callable[..., dict[str, Any]]
) -> None:
    with Load(fleet, fleet.nodes["two"].address) as load:
        outcome = ship(version("broken", fails=True))
    assert outcome["outcome"] == "rolled back" and outcome["serving"]
    assert "this version cannot start" in outcome["problems"][0]
    assert load.failures() == []
    assert {answer["version"] for answer in load.answered()} == {"2"}


def test_what_does_not_fit_is_refused_and_nothing_is_changed(
    fleet: Cluster, ship: Callable[..., dict[str, Any]]
) -> None:
    before = replica_pids(fleet)
    needs = {
        "packages": {"ray": "2.59.0", "vllm": "0.29.0"}, "secrets": ["NO_SUCH_SECRET"], "models": {"m": "/no/model"},
    }  # fmt: skip
    lacking = ship(version("4"), "--needs", json.dumps(needs))
    assert lacking["outcome"] == "refused"
    said = "\n".join(lacking["problems"])
    for wanted in ("ray 2.60.0, and 2.59.0", "vllm is missing", "NO_SUCH_SECRET is not set", "model m is not at"):
        assert said.count(wanted) == 3, "on every node"
    large = ship(version("4", replicas=9))
    assert large["outcome"] == "refused" and "room for 6 of 9 replicas" in large["problems"][0]
    assert replica_pids(fleet) == before


def test_a_killed_node_costs_the_requests_on_it_and_a_new_one_takes_its_place(fleet: Cluster) -> None:
    lost = fleet.nodes["two"].address
    with Load(fleet, fleet.nodes["one"].address) as load:
        fleet.wait_for(lambda: len(load.answered()) > 10, "load")
        killed_s = time.monotonic()
        fleet.kill("two")
        fleet.wait_for(lambda: replica_nodes(fleet) == [fleet.nodes["one"].address] * 2, "both replicas on one node")
    failures = [begun_s - killed_s for begun_s, answer in load.answers if isinstance(answer, str)]
    assert len(load.answers) == len(failures) + len(load.answered()), "nothing hangs"
    assert not failures or max(failures) < 30, "and then it is over"
    assert load.answered()[-1]["node"] != lost

    fleet.add("three", 3, CPU)
    assert who(fleet, wait_serving(fleet, "three"))["version"] == "2"


def test_scale_out_and_in(fleet: Cluster, ship: Callable[..., dict[str, Any]]) -> None:
    with Load(fleet, fleet.nodes["one"].address) as load:
        assert ship(version("2", replicas=3))["outcome"] == "serving"
        assert len(replica_pids(fleet)) == 3
        assert ship(version("2", replicas=1))["outcome"] == "serving"
    assert load.failures() == []
    assert len(replica_pids(fleet)) == 1


ANYBODY = """
import os, sys, ray
try:
    ray.init(sys.argv[1], log_to_driver=False)
    print("let in", ray.get(ray.remote(lambda: 1).remote()))
except Exception as error:
    print("refused:", type(error).__name__, error)
"""


def test_what_listens_and_that_ray_refuses_whoever_has_no_token(fleet: Cluster, parcel: Path) -> None:
    """Ray binds to every interface: the token is what keeps strangers out."""
    open_ports = {port for address, port in listening(fleet) if not address.startswith("127.")}
    assert 8000 in open_ports, "what callers reach"
    assert not {8265} & open_ports, "the dashboard is for this machine alone"
    assert {6379, 10001} <= open_ports, "the control store and Ray's client server are there, so they are tried below"

    environment = {name: value for name, value in fleet.environment.items() if not name.startswith("RAY_AUTH")}
    for token in ({}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "f" * 32}):
        for address in (f"{fleet.head.address}:6379", f"ray://{fleet.head.address}:10001"):
            tried = subprocess.run(
                fleet.caller.command(sys.executable, "-c", ANYBODY, address), env=environment | token, cwd=fleet.folder,
                capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            assert "let in" not in tried.stdout, f"{address} with {token or 'no token'}"
            assert re.search("token|auth", (tried.stdout + tried.stderr).lower()), tried.stdout + tried.stderr

    for url in (f"{DASHBOARD}/api/version", f"{DASHBOARD}/api/serve/applications/", f"{DASHBOARD}/api/jobs/"):
        answer = fleet.head.inside(lambda url=url: httpx.get(url, trust_env=False))  # type: ignore[misc]
        assert answer.status_code in (401, 403), url
    lost = fleet.run(*command(parcel, version("5")), RAY_AUTH_TOKEN="f" * 32)
    assert "token" in json.loads(lost.stdout)["problems"][0]


def test_an_address_where_nothing_is(fleet: Cluster, ship: Callable[..., dict[str, Any]]) -> None:
    outcome = ship(version("5"), "--address", "http://127.0.0.1:9")
    assert outcome["outcome"] == "failed" and "no Ray cluster answers at http://127.0.0.1:9" in outcome["problems"][0]


def who(fleet: Cluster, address: str) -> dict[str, Any]:
    def ask() -> dict[str, Any]:
        answer: dict[str, Any] = httpx.get(f"http://{address}:8000/", trust_env=False, timeout=20).json()
        return answer

    return fleet.caller.inside(ask)


def wait_serving(fleet: Cluster, name: str) -> str:
    """The address of a node, once its proxy serves."""
    address = fleet.nodes[name].address
    fleet.wait_for(
        lambda: any(
            proxy["node_ip"] == address and proxy["status"] == "HEALTHY" for proxy in fleet.serve()["proxies"].values()
        ),
        f"the proxy of {name}",
    )
    return address


def replicas(fleet: Cluster) -> list[dict[str, Any]]:
    shown = fleet.serve()["applications"]["stand-in"]["deployments"]["StandIn"]["replicas"]
    return [replica for replica in shown if replica["state"] == "RUNNING"]


def replica_pids(fleet: Cluster) -> set[int]:
    return {replica["pid"] for replica in replicas(fleet)}


def replica_nodes(fleet: Cluster) -> list[str]:
    return [replica["node_ip"] for replica in replicas(fleet)]


def listening(fleet: Cluster) -> set[tuple[str, int]]:
    shown = subprocess.run(fleet.head.command("ss", "-Hltn"), capture_output=True, text=True, check=True).stdout
    found = set()
    for line in shown.splitlines():
        address, port = line.split()[3].rsplit(":", 1)
        found.add((address.strip("[]").removeprefix("::ffff:"), int(port)))
    return found
