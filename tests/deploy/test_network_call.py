"""A call from another machine: over TLS with a certificate of one's own, behind the login, and through a TURN relay.

Machines are network namespaces: the server's network and the caller's meet only in the relay, which forwards nothing
but what TURN relays and the page's TCP connections. Ray Serve, coturn, Chromium and WebRTC are real.
"""

import asyncio
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from configs.deployment import Deployment, load_deployment
from configs.fleet import Tls
from configs.schema import parse
from serve_apps.access import PARAMETER, Links
from tests.support.browser import CHROMIUM, FAKE_MICROPHONE, page_of, received_energy, sent_energy, wait_for
from tests.support.certificate import self_signed, trusted_by_chromium
from tests.support.cli import ROOT
from tests.support.fake_services import REPLY
from tests.support.namespaces import Host, network
from tests.support.talk_page import press_talk

pytestmark = [pytest.mark.browser, pytest.mark.system]

PORT, TURN_PORT = 8443, 3478
READY_S = 120
LINK_KEY, TURN_SECRET = "a-key-that-signs-links-in-tests", "a-secret-that-turn-shares"
AUDIBLE_ENERGY = 0.004


@dataclass
class Site:
    """A server with a relay beside it, and two callers: one in its network, one beyond the relay."""

    near: Host
    far: Host
    server_url: str
    relay_url: str
    tls: Tls


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if not CHROMIUM.exists():
        pytest.skip(f"no {CHROMIUM}: install Debian's package chromium")
    if shutil.which("turnserver") is None:
        pytest.skip("no turnserver: install Debian's package coturn")
    folder = tmp_path_factory.mktemp("site")
    with network(1) as inner, network(2) as outer:
        server, relay, near = inner.host("server"), inner.host("relay"), inner.host("near")
        far = outer.host("far")
        relay_outside = outer.join(relay)
        tls = self_signed(folder, server.address, relay_outside)
        turn = {"urls": [f"turn:{address}:{TURN_PORT}" for address in (relay_outside,)], "secret_env": "TURN_SECRET"}
        config = folder / "deployment.json"
        config.write_text(deployment(server.address, tls, turn).model_dump_json())
        with (
            process(relay, folder, *turnserver(relay.address, relay_outside)),
            process(server, folder, sys.executable, "-m", "tests.support.secure_voice_server", str(config)) as log,
            forwarding(relay, server.address),
        ):
            until(lambda: "serving" in log.read_text(), log)
            yield Site(near, far, f"https://{server.address}:{PORT}", f"https://{relay_outside}:{PORT}", tls)


def deployment(host: str, tls: Tls, turn: dict[str, Any]) -> Deployment:
    data = load_deployment().model_dump(mode="json")
    data["http"] = {"host": host, "port": PORT, "tls": tls.model_dump(mode="json")}
    data["voice"]["ice_servers"] = [turn]
    data["voice"]["persona"]["greeting"] = ""
    return parse(Deployment, data, "test")


def turnserver(inside: str, outside: str) -> list[str]:
    return [
        "turnserver", "-n", "--no-cli", "--no-tls", "--no-dtls", "--log-file=stdout", "--simple-log", "--realm=test",
        f"--listening-ip={inside}", f"--listening-ip={outside}", f"--listening-port={TURN_PORT}",
        f"--relay-ip={inside}", "--use-auth-secret", f"--static-auth-secret={TURN_SECRET}",
        "--pidfile=/dev/null", "--userdb=:memory:",
    ]  # fmt: skip


@contextmanager
def process(host: Host, folder: Path, *words: str) -> Iterator[Path]:
    """A process there, ended with all that it started; gives its log."""
    log = folder / f"{Path(words[0]).name}-{host.namespace}.log"
    environment = {**os.environ, "FIRSTCLAUSE_LINK_SECRET": LINK_KEY, "TURN_SECRET": TURN_SECRET}
    environment |= {"PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    with log.open("wb") as output:
        started = subprocess.Popen(
            host.command(*words), cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield log
    finally:
        started.terminate()
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


@contextmanager
def forwarding(relay: Host, server: str) -> Iterator[None]:
    """The page's TCP connections reach the server through the relay's machine, as through a load balancer."""
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up, down = await asyncio.open_connection(server, PORT)
        await asyncio.gather(pump(reader, down), pump(up, writer))

    async def serve() -> None:
        listener = await asyncio.start_server(connect, "0.0.0.0", PORT)
        ready.set()
        async with listener:
            await stop.wait()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:  # type: ignore[arg-type]
            task.cancel()

    thread = threading.Thread(target=lambda: relay.inside(lambda: loop.run_until_complete(serve())))
    thread.start()
    assert ready.wait(10)
    yield
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)
    loop.close()


def until(done: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while not done():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.3)


@pytest.fixture
def chromium_at(tmp_path: Path) -> Callable[[Host], Path]:
    """A Chromium on another machine, as an executable."""

    def make(host: Host) -> Path:
        script = tmp_path / "chromium"
        script.write_text(f'#!/bin/sh\nexec ip netns exec {host.namespace} {CHROMIUM} "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return script

    return make


def link(url: str) -> str:
    return f"{url}/?{PARAMETER}={Links((LINK_KEY,)).sign(time.time() + 600)}"


def check_call(page: Any) -> None:
    """The microphone is given, sound goes both ways and a typed question is answered aloud."""
    assert page.evaluate("isSecureContext")
    press_talk(page)
    page.fill("#text", "What is the capital?")
    page.press("#text", "Enter")
    wait_for(page, f"document.body.innerText.includes({json.dumps(REPLY)})")
    page.wait_for_timeout(500)
    assert sent_energy(page) > 0, "the microphone's"
    assert received_energy(page) > AUDIBLE_ENERGY


def chosen_pair(page: Any) -> dict[str, str]:
    """The kinds of both ends of the pair that carries the call."""
    found: dict[str, str] = page.evaluate(
        """async () => {
            const stats = await window.connection.getStats();
            const pair = [...stats.values()].find((one) => one.type === "candidate-pair" && one.nominated
                && one.state === "succeeded");
            return {local: stats.get(pair.localCandidateId).candidateType,
                    remote: stats.get(pair.remoteCandidateId).candidateType};
        }"""
    )
    return found


def test_a_call_over_tls_with_a_link(site: Site, chromium_at: Callable[[Host], Path]) -> None:
    flags = (*FAKE_MICROPHONE, trusted_by_chromium(site.tls))
    with page_of(link(site.server_url), *flags, executable=chromium_at(site.near)) as page:
        assert PARAMETER not in page.url
        check_call(page)
        assert chosen_pair(page)["local"] != "relay", "one network needs no relay"


def test_a_call_through_the_relay_where_no_other_way_leads(site: Site, chromium_at: Callable[[Host], Path]) -> None:
    flags = (*FAKE_MICROPHONE, trusted_by_chromium(site.tls))
    with page_of(link(site.relay_url), *flags, executable=chromium_at(site.far)) as page:
        check_call(page)
        assert chosen_pair(page)["local"] == "relay"


def test_who_has_no_link_gets_no_call_and_no_turn_credentials(site: Site) -> None:
    def ask(path: str) -> int:
        return httpx.get(f"{site.server_url}{path}", verify=site.tls.trust(), trust_env=False).status_code

    for path in ("/", "/app.js", "/voice/settings"):
        assert site.near.inside(lambda path=path: ask(path)) == 401  # type: ignore[misc]


def test_a_browser_that_does_not_know_the_certificate_is_not_served(site: Site) -> None:
    with pytest.raises(httpx.ConnectError, match="certificate"):
        site.near.inside(lambda: httpx.get(site.server_url, trust_env=False))


def test_turn_refuses_a_stranger(site: Site) -> None:
    """A relay that anybody may use is a relay for anything."""
    done = subprocess.run(
        site.far.command(
            "turnutils_uclient", "-y", "-n", "2", "-u", "stranger", "-w", "guess", "-p", str(TURN_PORT),
            site.relay_url.removeprefix("https://").split(":")[0],
        ),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0 or "401" in done.stdout + done.stderr
