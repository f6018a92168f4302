"""A real Ray cluster of three nodes, each a network namespace: deployed to, upgraded, rolled back, attacked.

In `make verify PART=deploy`, with killed nodes and scaling: three nodes of Ray on two cores are slow to agree.
The application is a stand-in: what is tested is how it gets there and stays. test_product.py deploys the product.
"""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from tests.support import stand_in_fleet
from tests.support.cluster import DASHBOARD, Cluster, cluster
from tests.support.namespaces import Host
from tests.support.ship_stand_in import code
from tests.support.stand_in_fleet import CPU, Load, command, replica_pids, version, who

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def fleet() -> Iterator[Cluster]:
    """A head that runs no replica, and two workers that may."""
    with cluster() as made:
        made.add("head", cpus=0)
        made.add("one", 2, CPU)
        made.add("two", 2, CPU)
        yield made


@pytest.fixture(scope="module")
def parcel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code that is sent: the same for every deploy."""
    return code(tmp_path_factory.mktemp("code"))


@pytest.fixture(scope="module")
def ship(fleet: Cluster, parcel: Path) -> Callable[..., dict[str, Any]]:
    return partial(stand_in_fleet.ship, fleet, parcel)


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
    fleet: Cluster, ship: Callable[..., dict[str, Any]], parcel: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with Load(fleet, fleet.nodes["one"].address) as load, subprocess.Popen(
        fleet.head.command(*command(parcel, version("2", gate=str(gate)))), env=fleet.environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    ) as upgrade:  # fmt: skip
        assert upgrade.stdout is not None and upgrade.stderr is not None
        while "deploying" not in (line := upgrade.stderr.readline()):
            assert line, upgrade.stdout.read()
        busy = ship(version("3"))
        gate.touch()
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


def test_ctrl_c_restores_what_ran_before(fleet: Cluster, ship: Callable[..., dict[str, Any]], parcel: Path) -> None:
    with subprocess.Popen(
        fleet.head.command(*command(parcel, version("interrupted", gate="/no/gate"))), env=fleet.environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    ) as interrupted:  # fmt: skip
        assert interrupted.stderr is not None
        while "deploying" not in (line := interrupted.stderr.readline()):
            assert line, "ended too early"
        interrupted.send_signal(signal.SIGINT)
        interrupted.stderr.read()
        assert interrupted.wait(120) != 0
    fleet.wait_for(
        lambda: (
            (running := fleet.serve()["applications"]["stand-in"])["status"] == "RUNNING"
            and running["deployed_app_config"]["args"]["version"] == "2"
        ),
        "the version before",
    )
    assert who(fleet, fleet.head.address)["version"] == "2"


def test_what_does_not_fit_is_refused_and_nothing_is_changed(
    fleet: Cluster, ship: Callable[..., dict[str, Any]]
) -> None:
    before = replica_pids(fleet)
    needs = {
        "packages": {"ray": "2.59.0", "vllm": "0.29.0"}, "secrets": ["NO_SUCH_SECRET"], "models": ["whisper-large"],
    }  # fmt: skip
    lacking = ship(version("4"), "--needs", json.dumps(needs))
    assert lacking["outcome"] == "refused"
    said = "\n".join(lacking["problems"])
    for wanted in (
        "ray 2.60.0, and 2.59.0",
        "vllm is missing",
        "NO_SUCH_SECRET is not set",
        "model whisper-large is not prepared",
    ):
        assert said.count(wanted) == 3, "on every node"
    assert replica_pids(fleet) == before


DRIVER = """
import sys, ray
try:
    ray.init(sys.argv[1], log_to_driver=False)
    print("let in", ray.get(ray.remote(lambda: 1).remote()))
except Exception as error:
    print("refused:", type(error).__name__, error)
"""
METHODS = (
    "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo", "/ray.rpc.RayletDriver/ClusterInfo",
    "/ray.rpc.NodeManagerService/GetNodeStats", "/ray.rpc.ObjectManagerService/Pull",
    "/ray.rpc.CoreWorkerService/GetCoreWorkerStats", "/ray.rpc.ReporterService/GetTraceback",
)  # fmt: skip
"""One of each of Ray's gRPC services."""
ASKED_AGAIN = 20
"""A process that ends, as workers do all the time, cancels every call without a look at its token."""


def test_what_listens_and_that_ray_refuses_whoever_has_no_token(fleet: Cluster, parcel: Path) -> None:
    """Ray binds to every interface: the token keeps strangers out of all but its metrics, which a firewall may."""
    for _ in range(ASKED_AGAIN):
        open_ports = {port for address, port in listening(fleet.head) if not address.startswith("127.")}
        assert {8000, 6379} <= open_ports and 8265 not in open_ports, "the dashboard is for this machine alone"
        answers = {
            port: fleet.caller.inside(partial(stranger, fleet.head.address, port)) for port in open_ports - {8000}
        }
        if "ending" not in answers.values():
            break
        time.sleep(1)
    assert {"refused", "metrics"} == set(answers.values()), answers
    assert answers[6379] == "refused"

    for token in ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_TOKEN": "f" * 32}):
        tried = subprocess.run(
            fleet.caller.command(sys.executable, "-c", DRIVER, f"{fleet.head.address}:6379"),
            env=fleet.environment | token, cwd=fleet.folder, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert "let in" not in tried.stdout, token
    for url in (f"{DASHBOARD}/api/version", f"{DASHBOARD}/api/serve/applications/", f"{DASHBOARD}/api/jobs/"):
        answer = fleet.head.inside(lambda url=url: httpx.get(url, trust_env=False))  # type: ignore[misc]
        assert answer.status_code in (401, 403), url
    lost = stand_in_fleet.ship(fleet, parcel, version("5"), RAY_AUTH_TOKEN="f" * 32)
    assert lost["outcome"] == "failed" and "token" in lost["problems"][0]


def test_an_address_where_nothing_is(fleet: Cluster, ship: Callable[..., dict[str, Any]]) -> None:
    outcome = ship(version("5"), "--address", "http://127.0.0.1:9")
    assert outcome["outcome"] == "failed" and "no Ray cluster answers at http://127.0.0.1:9" in outcome["problems"][0]


def listening(host: Host) -> set[tuple[str, int]]:
    shown = subprocess.run(host.command("ss", "-Hltn"), capture_output=True, text=True, check=True).stdout
    found = set()
    for line in shown.splitlines():
        address, port = line.split()[3].rsplit(":", 1)
        found.add((address.strip("[]").removeprefix("::ffff:"), int(port)))
    return found


def stranger(address: str, port: int) -> str:
    """What a port says to somebody without a token: 'refused', 'metrics', 'ending', or what else it gave away."""
    try:
        page = httpx.get(f"http://{address}:{port}/", timeout=5, trust_env=False)
        return "refused" if page.status_code in (401, 403) else "metrics" if page.text.startswith("# HELP") else "HTTP"
    except httpx.HTTPError:
        pass  # no HTTP server
    codes = set()
    with grpc.insecure_channel(f"{address}:{port}") as channel:
        for method in METHODS:
            ask = channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)
            try:
                ask(b"", timeout=5)
                return f"{method} answered"
            except grpc.RpcError as error:
                codes.add(error.code())
    if grpc.StatusCode.UNAUTHENTICATED in codes:
        return "refused"
    return "ending" if codes == {grpc.StatusCode.UNAVAILABLE} else str(codes)
