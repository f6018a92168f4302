"""The page's login, Origin check and limits: the middleware around a small application."""

import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI, Request, WebSocket
from starlette.testclient import TestClient, WebSocketDenialResponse

from configs.deployment import Deployment, load_deployment
from configs.errors import InputError
from configs.schema import parse
from serve_apps.access import REMEMBERED, Access, Limits, Links, check_secrets, client_address, origin_allowed
from tests.support.cli import run_firstclause

# httpx beneath Starlette's test client
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

KEY, OLD_KEY = "k" * 32, "o" * 32
NOW = 1_900_000_000.0
SIGNED_BY_TWILIO = "S2OQWsag+sBQpw0G0M9UjDfqLo4="


def deployment(**access: Any) -> Deployment:
    data = load_deployment().model_dump(mode="json")
    return parse(Deployment, data | {"access": access}, "test")


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., TestClient]]:
    monkeypatch.setenv("FIRSTCLAUSE_LINK_SECRET", f"{KEY},{OLD_KEY}")

    def make(**access: Any) -> TestClient:
        api = FastAPI()

        @api.get("/")
        @api.get("/status")
        @api.get("/healthz")
        def page() -> str:
            return "page"

        @api.post("/voice/offer")
        async def offer(request: Request) -> int:
            return len(await request.body())

        @api.websocket("/voice/ws")
        @api.websocket("/voice/twilio")
        async def call(websocket: WebSocket) -> None:
            await websocket.accept()
            await websocket.send_text("hello")
            await websocket.close()

        api.add_middleware(Access, deployment=deployment(**access))
        return TestClient(api, base_url="http://voice.example")

    yield make


def link(key: str = KEY, until_s: float = 4e9) -> str:
    return Links((key,)).sign(until_s)


def test_a_pass_is_known_until_it_ends_and_no_other_is() -> None:
    links = Links((KEY, OLD_KEY))
    signed = links.sign(NOW + 60)
    assert links.until(signed, NOW) == NOW + 60
    assert links.until(signed, NOW + 61) is None
    assert links.until(Links((OLD_KEY,)).sign(NOW + 60), NOW) is not None, "an older key still opens"
    assert Links((KEY,)).until(Links((OLD_KEY,)).sign(NOW + 60), NOW) is None, "a key that was taken away does not"
    for forged in ("", "x", signed[:-1], signed + "x", signed.replace(".", "", 1)):
        assert links.until(forged, NOW) is None


@pytest.mark.parametrize("value", [None, "", "short", f"{KEY},short"])
def test_a_missing_or_weak_secret_is_named(value: str | None) -> None:
    environment = {} if value is None else {"FIRSTCLAUSE_LINK_SECRET": value}
    with pytest.raises(InputError, match="FIRSTCLAUSE_LINK_SECRET"):
        Links.of(deployment().access, environment)


def test_a_relay_whose_secret_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = load_deployment().model_dump(mode="json")
    data["voice"]["ice_servers"] = [{"urls": ["turn:relay.example"], "secret_env": "RELAY_SECRET"}]
    config = parse(Deployment, data, "test")
    with pytest.raises(InputError, match="RELAY_SECRET"):
        check_secrets(config)
    monkeypatch.setenv("RELAY_SECRET", "x")
    check_secrets(config)


def test_the_page_is_open_on_loopback_and_behind_a_link_elsewhere() -> None:
    local = load_deployment()
    assert not local.login
    assert local.model_copy(update={"http": local.http.model_copy(update={"host": "0.0.0.0"})}).login
    assert deployment(login="link").login


def test_a_link_leaves_a_cookie_and_no_trace_in_the_address(client: Callable[..., TestClient]) -> None:
    page = client(login="link")
    refused = page.get("/")
    assert refused.status_code == 401 and "firstclause link" in refused.text
    opened = page.get(f"/?access={link()}&x=1", follow_redirects=False)
    assert (opened.status_code, opened.headers["location"]) == (303, "./?x=1")
    cookie = opened.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=lax" in cookie and "secure" not in cookie
    assert page.get("/").status_code == 200, "the cookie opens it from now on"
    over_tls = client(login="link").get(
        f"/?access={link()}", headers={"X-Forwarded-Proto": "https"}, follow_redirects=False
    )
    assert "secure" in over_tls.headers["set-cookie"].lower()


def test_without_a_pass_nothing_but_the_probes_answers(client: Callable[..., TestClient]) -> None:
    page = client(login="link")
    assert page.get("/healthz").status_code == 200
    assert page.get("/status").status_code == 401
    assert page.post("/voice/offer", content="x").status_code == 401
    assert page.post(f"/voice/offer?access={link(until_s=1)}", content="x").status_code == 401, "an old link"
    with pytest.raises(WebSocketDenialResponse) as denied, page.websocket_connect("/voice/ws"):
        pass
    assert denied.value.status_code == 401
    bearer = {"Authorization": f"Bearer {link(OLD_KEY)}"}
    assert page.get("/status", headers=bearer).status_code == 200
    assert page.post("/voice/offer", content="four", headers=bearer).json() == 4, "the body arrives whole"
    with page.websocket_connect(f"/voice/ws?access={link()}") as call:
        assert call.receive_text() == "hello"


def test_twilio_needs_no_link_but_its_signature(
    client: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = client(login="link")
    # openssl: printf wss://voice.example/voice/twilio | openssl dgst -sha1 -hmac an-account-token -binary | base64
    signature = {"X-Twilio-Signature": SIGNED_BY_TWILIO, "Host": "voice.example"}

    def answer(headers: dict[str, str]) -> int:
        with pytest.raises(WebSocketDenialResponse) as denied, page.websocket_connect("/voice/twilio", headers=headers):
            pass
        return denied.value.status_code

    assert answer(signature) == 401, "no account's token is known"
    monkeypatch.setenv("TWILIO_AUTH_TOKEN", "an-account-token")
    assert answer({}) == 401 and answer({"X-Twilio-Signature": SIGNED_BY_TWILIO[::-1]}) == 401
    with page.websocket_connect("/voice/twilio", headers=signature) as call:
        assert call.receive_text() == "hello"


def test_another_sites_page_may_not_call(client: Callable[..., TestClient]) -> None:
    page = client(origins=["https://friend.example"])
    for origin in ("http://evil.example", "null", "http://voice.example.evil.example", "http://voice.example:81"):
        headers = {"Origin": origin}
        assert page.post("/voice/offer", content="x", headers=headers).status_code == 403
        with (
            pytest.raises(WebSocketDenialResponse) as denied,
            page.websocket_connect("/voice/ws", headers=headers),
        ):
            pass
        assert denied.value.status_code == 403
    for origin in ("https://voice.example", "http://voice.example", "https://friend.example"):
        assert page.post("/voice/offer", content="x", headers={"Origin": origin}).status_code == 200
    assert page.get("/", headers={"Origin": "http://evil.example"}).status_code == 200, "reading changes nothing"
    assert origin_allowed(None, None, ()) and not origin_allowed("https://a", None, ())


def test_one_address_is_limited_and_another_is_not(client: Callable[..., TestClient]) -> None:
    page = client(calls_per_min=2, requests_per_min=6, proxies=1)
    one, other = {"X-Forwarded-For": "9.9.9.9, 1.1.1.1"}, {"X-Forwarded-For": "1.1.1.1, 2.2.2.2"}
    answers = [page.post("/voice/offer", content="x", headers=one).status_code for _ in range(3)]
    assert answers == [200, 200, 429]
    refused = page.post("/voice/offer", content="x", headers=one)
    assert refused.json()["error"]["type"] == "rate_limit_error" and 1 <= int(refused.headers["retry-after"]) <= 60
    assert [page.get("/", headers=one).status_code for _ in range(3)] == [200, 200, 429]
    assert page.post("/voice/offer", content="x", headers=other).status_code == 200


def test_an_allowance_fills_up_again_and_forgets_whom_it_has_not_seen() -> None:
    limits = Limits(per_min=2)
    assert [limits.wait_s("a", 0), limits.wait_s("a", 0)] == [0, 0]
    assert limits.wait_s("a", 0) == 30
    assert limits.wait_s("a", 30) == 0
    for number in range(REMEMBERED):
        limits.wait_s(str(number), 31)
    assert limits.wait_s("a", 31) == 0, "forgotten, and full again"


def test_a_large_body_is_refused_stated_or_not(client: Callable[..., TestClient]) -> None:
    page = client(max_body_bytes=1024)
    assert page.post("/voice/offer", content=b"x" * 1024).json() == 1024
    assert page.post("/voice/offer", content=b"x" * 1025).status_code == 413
    assert page.post("/voice/offer", content=iter([b"x" * 600] * 2)).status_code == 413


@pytest.mark.parametrize(
    ("proxies", "written", "address"),
    [(0, "1.1.1.1", "10.0.0.1"), (1, "9.9.9.9, 1.1.1.1", "1.1.1.1"), (2, "1.1.1.1, 2.2.2.2", "1.1.1.1"),
     (2, "1.1.1.1", "10.0.0.1"), (1, "", "10.0.0.1")],
)  # fmt: skip
def test_only_what_trusted_proxies_wrote_counts_as_the_address(proxies: int, written: str, address: str) -> None:
    from starlette.datastructures import Headers

    headers = Headers({"x-forwarded-for": written} if written else {})
    assert client_address({"client": ("10.0.0.1", 5)}, headers, proxies) == address


def test_the_command_makes_a_link_that_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTCLAUSE_LINK_SECRET", KEY)
    made = run_firstclause("link", "--hours", "1", "--url", "https://voice.example/")
    assert made.returncode == 0, made.stderr
    parts = urlsplit(made.stdout.strip())
    assert (parts.scheme, parts.netloc, parts.path) == ("https", "voice.example", "/")
    assert Links((KEY,)).until(parts.query.removeprefix("access="), time.time()) is not None
    monkeypatch.delenv("FIRSTCLAUSE_LINK_SECRET")
    missing = run_firstclause("link")
    assert missing.returncode == 2 and "FIRSTCLAUSE_LINK_SECRET" in missing.stderr
