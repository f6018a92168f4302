"""STUN and TURN servers as a peer wants them, with credentials of an hour (coturn's `use-auth-secret`).

The scheme is draft-uberti-behave-turn-rest-00: the user name is the time of expiry, the password its HMAC-SHA1.
"""

import base64
import hashlib
import hmac
import os
from collections.abc import Sequence
from typing import Any

from configs.voice import IceServer

VALID_S = 3600


class NoSecret(RuntimeError):
    """A TURN server's secret is not in the environment."""


def peers_servers(servers: Sequence[IceServer], now_s: float) -> list[dict[str, Any]]:
    """What RTCPeerConnection's iceServers takes. `now_s` is Unix time, as the TURN server's clock has it.

    Raises NoSecret.
    """
    return [_with_credentials(server, now_s) for server in servers]


def _with_credentials(server: IceServer, now_s: float) -> dict[str, Any]:
    shown: dict[str, Any] = {"urls": list(server.urls)}
    if server.secret_env is None:
        return shown
    secret = os.environ.get(server.secret_env)
    if not secret:
        raise NoSecret(f"{server.secret_env} is not set: it holds the secret of {server.urls[0]}")
    username = str(int(now_s) + VALID_S)
    digest = hmac.new(secret.encode(), username.encode(), hashlib.sha1).digest()
    return shown | {"username": username, "credential": base64.b64encode(digest).decode()}
