"""Calls over WebRTC between aiortc peers on loopback: real connections and pipelines, models that are faked."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
import pytest
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import AudioStreamTrack, MediaStreamError
from av import AudioResampler

from configs.voice import Persona, VoiceConfig
from serve_apps.voice_routes import routes
from telemetry.sound import loud_windows
from tests.support.fake_services import REPLY, fake_services
from voice import webrtc
from voice.switchboard import BUSY, Switchboard

# pipecat's voice activity detector, not ours to mend
pytestmark = pytest.mark.filterwarnings("ignore:path is deprecated:DeprecationWarning")

GREETING = "Hello there."
DEADLINE_S = 30


@dataclass
class Peer:
    """A caller: sends silence, keeps what it hears and what it is told."""

    connection: RTCPeerConnection = field(default_factory=lambda: RTCPeerConnection(RTCConfiguration(iceServers=[])))
    messages: list[dict[str, Any]] = field(default_factory=list)
    heard: list[np.ndarray[Any, np.dtype[np.int16]]] = field(default_factory=list)
    ears: "list[asyncio.Task[None]]" = field(default_factory=list)

    async def offer(self) -> dict[str, str]:
        self.connection.addTrack(AudioStreamTrack())
        self.channel = self.connection.createDataChannel("messages")
        self.channel.on("message", lambda text: self.messages.append(json.loads(text)))
        self.connection.on("track", lambda track: self.ears.append(asyncio.create_task(self.listen(track))))
        await self.connection.setLocalDescription(await self.connection.createOffer())
        local = self.connection.localDescription
        return {"type": local.type, "sdp": local.sdp}

    async def accept(self, answer: dict[str, str]) -> None:
        await self.connection.setRemoteDescription(RTCSessionDescription(**answer))
        await until(lambda: self.channel.readyState == "open")

    def send(self, type: str, data: dict[str, Any]) -> None:
        self.channel.send(json.dumps({"label": "rtvi-ai", "id": "1", "type": type, "data": data}))

    async def listen(self, track: Any) -> None:
        resampler = AudioResampler("s16", "mono", 48_000)
        try:
            while True:
                for frame in resampler.resample(await track.recv()):
                    self.heard.append(frame.to_ndarray()[0])
        except MediaStreamError:
            pass

    def types(self) -> list[str]:
        return [message["type"] for message in self.messages]

    def told(self, kind: str) -> list[dict[str, Any]]:
        data = [message["data"] for message in self.messages if message["type"] == "server-message"]
        return [message for message in data if message["kind"] == kind]

    def loud(self) -> int:
        return int(loud_windows(np.concatenate(self.heard), 48_000).sum()) if self.heard else 0

    def vanish(self) -> None:
        """Be gone without a word, as a machine does whose network is cut."""
        ice = self.connection.sctp.transport.transport._connection
        for protocol in ice._protocols:
            protocol.transport.abort()

    async def close(self) -> None:
        await self.connection.close()
        for ear in self.ears:
            ear.cancel()
        await asyncio.gather(*self.ears, return_exceptions=True)


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not done():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.02)


@pytest.fixture
async def board() -> AsyncIterator[Switchboard]:
    webrtc.offer_loopback()
    config = VoiceConfig(persona=Persona(system_prompt="-", greeting=GREETING), calls_per_replica=1)
    board = Switchboard(config, fake_services(), {"network": 40.0})
    yield board
    await board.close()


@pytest.fixture
async def client(board: Switchboard) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(routes(board))
    async with httpx.AsyncClient(transport=transport, base_url="http://voice") as client:
        yield client


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    yield peer
    await peer.close()


async def call(peer: Peer, client: httpx.AsyncClient) -> None:
    reply = await client.post("/voice/offer", json=await peer.offer())
    assert reply.status_code == 200, reply.text
    assert set(reply.json()) == {"sdp", "type"}
    await peer.accept(reply.json())
    peer.send("client-ready", {"version": "2.0.0", "about": {"library": "test"}})
    await until(lambda: "bot-ready" in peer.types())


async def test_a_peer_is_greeted_aloud_and_types_a_question(peer: Peer, client: httpx.AsyncClient) -> None:
    await call(peer, client)
    await until(lambda: bool(peer.told("reply")))
    assert [message["data"]["text"] for message in peer.messages if message["type"] == "bot-tts-text"] == [GREETING]
    # 0.4 s of tone are 40 loud windows; a codec may take or add a few at its edges.
    await until(lambda: peer.loud() >= 35)
    peer.send(
        "send-text", {"content": "And the capital?", "options": {"run_immediately": True, "audio_response": True}}
    )
    await until(lambda: len(peer.told("reply")) == 2)
    assert peer.told("reply")[1] == {"kind": "reply", "turn": 0, "text": REPLY, "interrupted": False}
    transcripts = [message["data"] for message in peer.messages if message["type"] == "user-transcription"]
    assert transcripts == [{"text": "And the capital?", "final": True}]


async def test_one_call_more_is_busy_until_a_place_is_free(
    board: Switchboard, peer: Peer, client: httpx.AsyncClient
) -> None:
    await call(peer, client)
    second = Peer()
    offer = await second.offer()
    refused = await client.post("/voice/offer", json=offer)
    assert (refused.status_code, refused.json()["error"]["message"]) == (503, BUSY)
    assert int(refused.headers["retry-after"]) > 0
    assert peer.connection.connectionState == "connected"

    await peer.close()
    await until(lambda: board.calls == 0)
    accepted = await client.post("/voice/offer", json=offer)
    assert accepted.status_code == 200
    await second.close()


async def test_two_offers_at_once_do_not_share_the_last_place(client: httpx.AsyncClient) -> None:
    peers = [Peer(), Peer()]
    offers = [await peer.offer() for peer in peers]
    replies = await asyncio.gather(*(client.post("/voice/offer", json=offer) for offer in offers))
    assert sorted(reply.status_code for reply in replies) == [200, 503]
    for peer in peers:
        await peer.close()


async def test_a_peer_that_never_connects_frees_its_place(
    board: Switchboard, peer: Peer, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webrtc, "CONNECT_TIMEOUT_S", 1)
    assert (await client.post("/voice/offer", json=await peer.offer())).status_code == 200
    assert board.calls == 1
    await until(lambda: board.calls == 0)


async def test_a_peer_that_vanishes_frees_its_place(
    board: Switchboard, peer: Peer, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webrtc, "LOST_S", 2)
    await call(peer, client)
    peer.vanish()
    await until(lambda: board.calls == 0)


async def test_a_muted_or_idle_peer_is_not_taken_for_lost(
    board: Switchboard, peer: Peer, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webrtc, "LOST_S", 2)
    await call(peer, client)
    await asyncio.sleep(5)
    assert board.calls == 1
    assert peer.connection.connectionState == "connected"


async def test_a_browser_that_hides_its_addresses_is_found_by_its_checks(peer: Peer, client: httpx.AsyncClient) -> None:
    offer = await peer.offer()
    lines = []
    for line in offer["sdp"].splitlines():
        if line.startswith("a=candidate:"):
            words = line.split(" ")
            words[4] = "2f8e7f0c-6f0f-4b52-9c1c-0d2d4b8a1f77.local"
            line = " ".join(words)
        lines.append(line)
    hidden = "\r\n".join(lines) + "\r\n"
    assert ".local" in hidden
    reply = await client.post("/voice/offer", json={"type": "offer", "sdp": hidden})
    assert reply.status_code == 200, reply.text
    await peer.accept(reply.json())


async def test_an_answer_names_the_loopback_address(peer: Peer, client: httpx.AsyncClient) -> None:
    reply = await client.post("/voice/offer", json=await peer.offer())
    assert " 127.0.0.1 " in reply.json()["sdp"]


VIDEO_FIRST = (
    "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\nc=IN IP4 0.0.0.0\r\n"
)


@pytest.mark.parametrize(
    "offer",
    [
        {"type": "offer", "sdp": ""},
        {"type": "offer", "sdp": "hello"},
        {"type": "offer", "sdp": "v=0\r\nm=audio\r\n"},
        {"type": "offer", "sdp": VIDEO_FIRST},
        {"type": "answer", "sdp": "v=0"},
        {"type": "offer"},
        {"type": "offer", "sdp": "v=0\r\n" * 30_000},
        [],
    ],
)
async def test_an_offer_that_is_none_is_refused_and_takes_no_place(
    board: Switchboard, client: httpx.AsyncClient, offer: object
) -> None:
    reply = await client.post("/voice/offer", json=offer)
    assert reply.status_code == 400
    assert reply.json()["error"]["message"]
    assert board.calls == 0


async def test_another_sites_form_cannot_ring(board: Switchboard, peer: Peer, client: httpx.AsyncClient) -> None:
    """A browser lets any site post text/plain; it asks before it posts JSON across sites."""
    text = json.dumps(await peer.offer())
    reply = await client.post("/voice/offer", content=text, headers={"Content-Type": "text/plain"})
    assert reply.status_code == 400
    assert board.calls == 0


async def test_closing_the_switchboard_hangs_up(board: Switchboard, peer: Peer, client: httpx.AsyncClient) -> None:
    await call(peer, client)
    await board.close()
    await until(lambda: peer.connection.connectionState == "closed")
    assert board.calls == 0
