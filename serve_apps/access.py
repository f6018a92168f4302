"""Who may open the page and call: a signed link, the Origin, how often and how much one address may ask.

`Links` and `Limits` decide, given the time; `Access` is the ASGI middleware that asks them. The API under /v1 is
another application, with keys of its own.
"""

import base64
import hashlib
import hmac
import math
import os
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlencode, urlsplit

from itsdangerous import BadSignature, URLSafeSerializer
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from configs.deployment import Deployment
from configs.errors import MISSING, InputError
from configs.fleet import Access as AccessConfig

COOKIE = "firstclause"
PARAMETER = "access"
PROBES = ("/healthz", "/readyz")
TWILIO = "/voice/twilio"
CALLS = ("/voice/offer", "/voice/ws", TWILIO)
REMEMBERED = 10_000
"""Addresses whose requests are counted; the one longest unseen is forgotten first."""
SECRET_MIN = 16

ASK_FOR_A_LINK = """<!doctype html><html lang="en"><meta charset="utf-8"><title>First Clause</title>
<p>This page opens with a link of yours, and this one has none or an old one. Whoever runs it makes you another:
<code>firstclause link</code>.</p></html>"""


class Links:
    """Signs links and knows its own again. Keys: the newest first; older ones still open what they signed."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._signer = URLSafeSerializer(list(reversed(keys)), salt="firstclause-link")

    @staticmethod
    def of(config: AccessConfig, environment: Mapping[str, str]) -> "Links":
        """With the keys that the environment has. Raises InputError."""
        keys = tuple(key.strip() for key in environment.get(config.secret_env, "").split(",") if key.strip())
        if not keys or any(len(key) < SECRET_MIN for key in keys):
            problem = f"set it to a random secret of {SECRET_MIN} characters or more: openssl rand -hex 32"
            raise InputError("environment", config.secret_env, MISSING, problem)
        return Links(keys)

    def sign(self, until_s: float) -> str:
        """A pass that is good until then (Unix time)."""
        return str(self._signer.dumps({"until": int(until_s)}))

    def until(self, text: str, now_s: float) -> float | None:
        """When a pass ends, None if it is none or has ended."""
        try:
            until_s = self._signer.loads(text)["until"]
        except (BadSignature, KeyError, TypeError):
            return None
        return float(until_s) if isinstance(until_s, int) and until_s > now_s else None


@dataclass
class _Bucket:
    """What an address has left of a minute's allowance; it fills up evenly."""

    left: float
    at_s: float


class Limits:
    """How often one address may ask: a token bucket for each, full at first. Times are monotonic."""

    def __init__(self, per_min: int) -> None:
        self._per_min = per_min
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_s(self, address: str, now_s: float) -> float:
        """0 if it may ask, and has; else how long until it may."""
        bucket = self._buckets.setdefault(address, _Bucket(self._per_min, now_s))
        self._buckets.move_to_end(address)
        if len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        bucket.left = min(self._per_min, bucket.left + (now_s - bucket.at_s) * self._per_min / 60)
        bucket.at_s = now_s
        if bucket.left < 1:
            return (1 - bucket.left) * 60 / self._per_min
        bucket.left -= 1
        return 0.0


class Access:
    """The middleware. Raises InputError when it is made without the secret that it needs."""

    def __init__(self, app: ASGIApp, deployment: Deployment) -> None:
        self._app, self._config = app, deployment.access
        self._links = Links.of(self._config, os.environ) if deployment.login else None
        self._requests = Limits(self._config.requests_per_min)
        self._calls = Limits(self._config.calls_per_min)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None and scope["type"] == "http":
            body = await _body(receive, self._config.max_body_bytes)
            if body is None:
                refusal = error_response(413, "invalid_request_error", f"more than {self._config.max_body_bytes} bytes")
            else:
                receive = _again(body, receive)
        if refusal is not None:
            await _refuse(refusal, scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, path = Headers(scope=scope), scope["path"]
        address = client_address(scope, headers, self._config.proxies)
        now_s = time.monotonic()
        wait_s = self._requests.wait_s(address, now_s)
        if not wait_s and path in CALLS:
            wait_s = self._calls.wait_s(address, now_s)
        if wait_s:
            return error_response(
                429, "rate_limit_error", "too many requests from your address", {"Retry-After": str(math.ceil(wait_s))}
            )
        # Browsers send an Origin with what a page of another site could make them do.
        changes = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        if changes and not origin_allowed(headers.get("origin"), headers.get("host"), self._config.origins):
            return error_response(403, "permission_error", "another site's page may not do this")
        return self._login(scope, headers) if self._links else None

    def _login(self, scope: Scope, headers: Headers) -> Response | None:
        """None for who has a pass: in a cookie, as a bearer token, or in the link, which leaves the cookie."""
        assert self._links is not None
        now_s = time.time()
        query = parse_qs(scope["query_string"].decode("latin-1"))
        linked = query.pop(PARAMETER, [""])[0]
        if scope["path"] == TWILIO and signed_by_twilio(headers, os.environ.get(self._config.twilio_env, "")):
            return None
        given = (_cookie(headers), headers.get("authorization", "").removeprefix("Bearer ").strip())
        page = scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == "/"
        if linked and (until_s := self._links.until(linked, now_s)) is not None:
            if not page:
                return None
            plain = RedirectResponse("./" + (f"?{urlencode(query, doseq=True)}" if query else ""), 303)
            plain.set_cookie(
                COOKIE, linked, max_age=int(until_s - now_s), httponly=True, samesite="lax",
                secure=scope.get("scheme") == "https" or headers.get("x-forwarded-proto") == "https",
            )  # fmt: skip
            plain.headers["Cache-Control"] = "no-store"
            return plain
        if any(self._links.until(text, now_s) is not None for text in given if text):
            return None
        return (
            HTMLResponse(ASK_FOR_A_LINK, 401)
            if page
            else error_response(401, "authentication_error", "a link is wanted: firstclause link")
        )


def check_secrets(deployment: Deployment) -> None:
    """Raises InputError where a secret that the page or a call needs is not in the environment."""
    if deployment.login:
        Links.of(deployment.access, os.environ)
    for server in deployment.voice.ice_servers:
        if server.secret_env and not os.environ.get(server.secret_env):
            problem = f"not set: it holds the secret of {server.urls[0]}"
            raise InputError("environment", server.secret_env, MISSING, problem)


def pass_for_a_minute(deployment: Deployment) -> dict[str, str]:
    """The header that opens what is behind the login, for a command on a machine that has the secret.

    Raises InputError.
    """
    if not deployment.login:
        return {}
    return {"Authorization": f"Bearer {Links.of(deployment.access, os.environ).sign(time.time() + 60)}"}


def origin_allowed(origin: str | None, host: str | None, also: tuple[str, ...]) -> bool:
    """Whether a page of `origin` may call: the page's own host, and those named. No Origin is no browser's page.

    The scheme is not compared: what ends TLS in front speaks HTTP to us.
    """
    if origin is None:
        return True
    return origin in also or (host is not None and urlsplit(origin).netloc.lower() == host.lower())


def signed_by_twilio(headers: Headers, token: str) -> bool:
    """Whether a WebSocket's request bears the signature of Twilio's account with this token.

    It is the HMAC-SHA1 of the address as Twilio was given it (Twilio: Security, "Validating requests").
    """
    address = f"wss://{headers.get('host', '')}{TWILIO}"
    digest = base64.b64encode(hmac.new(token.encode(), address.encode(), hashlib.sha1).digest()).decode()
    return bool(token) and hmac.compare_digest(digest, headers.get("x-twilio-signature", ""))


def client_address(scope: Scope, headers: Headers, proxies: int) -> str:
    """The caller's address: the connection's, or what the outermost trusted proxy wrote down."""
    written = [entry.strip() for line in headers.getlist("x-forwarded-for") for entry in line.split(",")]
    if proxies and len(written) >= proxies:
        return written[-proxies]
    client = scope.get("client")
    return client[0] if client else "unknown"


def _cookie(headers: Headers) -> str:
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return morsel.value if morsel else ""


async def _body(receive: Receive, limit_bytes: int) -> bytes | None:
    """The request's body, None once it is too large."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return bytes(body)
        body += message.get("body", b"")
        if len(body) > limit_bytes:
            return None
        if not message.get("more_body"):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """A receive that gives the body that was read, and then what comes after it."""
    given = False

    async def give() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return give


async def _refuse(refusal: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()  # websocket.connect
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return

        async def denial(message: Message) -> None:
            await send({**message, "type": message["type"].replace("http.", "websocket.http.")})

        await refusal({**scope, "type": "http", "method": "GET"}, receive, denial)
        return
    await refusal(scope, receive, send)


def error_response(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error in OpenAI's shape."""
    return JSONResponse({"error": {"message": message, "type": kind}}, status_code=status, headers=dict(headers or {}))
