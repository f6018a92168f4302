"""A call over WebRTC: a page's offer in, the answer and a transport out.

One request sets a call up: offer and answer carry all their candidates, so that the call stays on the replica that
answered. What it does not do: count calls (switchboard.py), or speak (call.py).
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from aioice import ice
from aiortc import RTCIceServer
from aiortc.jitterbuffer import JitterBuffer
from loguru import logger
from pipecat.transports.base_transport import TransportParams
from pipecat.transports.smallwebrtc.connection import SmallWebRTCConnection
from pipecat.transports.smallwebrtc.transport import SmallWebRTCTransport
from pydantic import BaseModel, Field

from voice.call import transport_params

CONNECT_TIMEOUT_S = 8
"""A peer that has not connected by then frees its place."""
LOST_S = 5
"""A peer of which nothing arrives for so long is gone: a live one sends 50 packets a second, muted or not."""
WATCH_EVERY_S = 1
CLOSE_TIMEOUT_S = 5
NEVER_S = 86_400

LOOPBACK = "127.0.0.1"
UPLINK_PACKETS = 8
"""Packets of 20 ms that the uplink waits for a lost one before it goes on without it."""

_HIDDEN = re.compile(r"^a=(candidate:.*\.local .*|end-of-candidates)\r?\n", re.MULTILINE)


class Offer(BaseModel):
    """What a page posts to /voice/offer."""

    type: Literal["offer"]
    sdp: Annotated[str, Field(max_length=100_000)]


class OfferError(ValueError):
    """An offer that no call can be made of. The message is for its sender."""


async def connect(offer: Offer, ice_servers: Sequence[dict[str, Any]]) -> SmallWebRTCConnection:
    """A connection that has its answer and waits for its peer; servers as ice.py has them. Raises OfferError."""
    # pipecat's own timeout cancels itself half-way through closing, and leaves the sockets open: until_lost is ours.
    servers = [RTCIceServer(**server) for server in ice_servers]
    connection = SmallWebRTCConnection(servers, connection_timeout_secs=NEVER_S)
    try:
        # Names that a browser hides its addresses behind are found by multicast, if at all; the peer's own checks
        # tell its address anyway.
        await connection.initialize(sdp=_HIDDEN.sub("", offer.sdp), type=offer.type)
        receivers = [transceiver.receiver for transceiver in connection.pc.getTransceivers()]
        if not receivers or receivers[0].track.kind != "audio":
            raise OfferError("the offer's first medium is not audio")
    except OfferError:
        await hang_up(connection)
        raise
    except Exception as error:  # the SDP parser raises whatever it stumbles over
        await hang_up(connection)
        raise OfferError(f"the offer is not one that can be answered ({type(error).__name__})") from error
    _hear_at_once(receivers[0])
    return connection


def answer_of(connection: SmallWebRTCConnection) -> dict[str, str]:
    """The answer as /voice/offer returns it."""
    answer = connection.pc.localDescription
    return {"sdp": answer.sdp, "type": answer.type}


def transport_of(connection: SmallWebRTCConnection) -> SmallWebRTCTransport:
    """The connection as a pipeline's transport."""
    return SmallWebRTCTransport(connection, TransportParams.model_validate(transport_params()))


async def until_lost(connection: SmallWebRTCConnection) -> None:
    """Returns when the peer has not connected in time, or when nothing has arrived from it for LOST_S.

    A peer that ends its call says so. This is for one that cannot: its machine asleep, its network gone.
    """
    waited_s, quiet_s, heard = 0, 0, -1
    while waited_s < CONNECT_TIMEOUT_S and quiet_s < LOST_S:
        await asyncio.sleep(WATCH_EVERY_S)
        if connection.pc.connectionState != "connected":
            waited_s += WATCH_EVERY_S
            continue
        received = await _bytes_received(connection)
        waited_s, quiet_s, heard = 0, 0 if received > heard else quiet_s + WATCH_EVERY_S, received
    logger.info("nothing arrives from a peer: its call ends")


async def hang_up(connection: SmallWebRTCConnection) -> None:
    """Close the connection and tell its peer. Again does nothing."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await connection.disconnect()  # type: ignore[no-untyped-call]
    except TimeoutError:
        # A close that was cancelled half-way is never over for aiortc.
        logger.warning("a peer's connection did not close in {} s", CLOSE_TIMEOUT_S)


def offer_loopback() -> None:
    """Let answers name 127.0.0.1 among the machine's addresses, for as long as this process lives.

    aioice leaves it out, so that two peers on a machine without a network would find no way to each other.
    """
    ice.get_host_addresses = _addresses_with_loopback


_addresses = ice.get_host_addresses


def _addresses_with_loopback(use_ipv4: bool, use_ipv6: bool) -> list[str]:
    return [*_addresses(use_ipv4, use_ipv6), *([LOOPBACK] if use_ipv4 else [])]


async def _bytes_received(connection: SmallWebRTCConnection) -> int:
    report = await connection.pc.getStats()
    return sum(stats.bytesReceived for stats in report.values() if stats.type == "transport")


def _hear_at_once(receiver: Any) -> None:
    """aiortc holds four packets (80 ms) back, for a listener's ear; a recognizer needs only their order."""
    receiver._RTCRtpReceiver__jitter_buffer = JitterBuffer(capacity=UPLINK_PACKETS, prefetch=1)
