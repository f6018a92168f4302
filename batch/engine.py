"""Whoever answers a row: the LLM tier over HTTP, or a stand-in inside the worker that measures everything else.

EngineError           the row has no answer
    Refused           nobody there, or not now: no fault of the row's; try again, however often
    Broken            it failed while on this row: a few tries
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

CONNECT_S = 10.0


class EngineError(Exception):
    """No answer."""


class Refused(EngineError):
    """`after_s`: how long the engine asked to be left alone."""

    def __init__(self, message: str, after_s: float = 0) -> None:
        super().__init__(message)
        self.after_s = after_s


class Broken(EngineError):
    pass


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for a row, an error of the row's own included (4xx)."""

    status: int
    body: dict[str, Any]
    request_id: str

    @property
    def good(self) -> bool:
        return self.status == 200


class Engine(Protocol):
    """Answers rows, many at a time."""

    async def answer(self, endpoint: str, body: dict[str, Any]) -> Answer:
        """Raises EngineError."""
        ...

    async def close(self) -> None: ...


class Tier(Protocol):
    """Where rows are answered; it is sent to whoever needs an engine."""

    def engine(self, tenant: str) -> Engine:
        """An engine for a tenant's rows, made in the event loop that it is used in."""
        ...

    def models(self) -> set[str] | None:
        """What is served, or None where the tier does not say now."""
        ...


@dataclass(frozen=True)
class StubTier:
    """Answers at once, in the worker: what is left to measure is the job itself."""

    def engine(self, tenant: str) -> Engine:
        return StubEngine()

    def models(self) -> set[str] | None:
        return None


@dataclass(frozen=True)
class HttpTier:
    """An OpenAI-compatible server; `url` without /v1."""

    url: str
    timeout_s: float = 600.0

    def engine(self, tenant: str) -> Engine:
        return HttpEngine(self)

    def models(self) -> set[str] | None:
        try:
            answer = httpx.get(f"{self.url}/v1/models", timeout=CONNECT_S, trust_env=False).raise_for_status()
            return {str(model["id"]) for model in answer.json()["data"]}
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return None


class StubEngine:
    """Answers each prompt with its length, at once."""

    async def answer(self, endpoint: str, body: dict[str, Any]) -> Answer:
        await asyncio.sleep(0)
        content = str(len(json.dumps(body.get("messages", body.get("prompt")))))
        choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return Answer(200, {"object": "chat.completion", "choices": [choice], "usage": usage}, "stub")

    async def close(self) -> None:
        pass


class HttpEngine:
    """An OpenAI-compatible server; as many requests at once as it is asked for."""

    def __init__(self, tier: HttpTier) -> None:
        self._client = httpx.AsyncClient(
            base_url=tier.url,
            timeout=httpx.Timeout(tier.timeout_s, connect=CONNECT_S, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            trust_env=False,
        )

    async def answer(self, endpoint: str, body: dict[str, Any]) -> Answer:
        try:
            response = await self._client.post(endpoint, json=body)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Refused(f"nobody there: {error!r}") from error
        except httpx.HTTPError as error:
            raise Broken(repr(error)) from error
        return judge(response.status_code, _json(response.content), response.headers)

    async def close(self) -> None:
        await self._client.aclose()


def judge(status: int, body: Any, headers: Mapping[str, str]) -> Answer:
    """An answer, if it is one: a completion with 200, or an error object with 4xx. Raises EngineError.

    401, 403 and a 404 that is no OpenAI error (nothing is served there now) are the deployment's state, not the row's.
    """
    if status in (401, 403, 425, 429, 503) or (status == 404 and not _is_error(body)):
        raise Refused(f"status {status}", _retry_after_s(headers))
    if (status == 200 and _is_completion(body)) or (400 <= status < 500 and status != 408 and _is_error(body)):
        request_id = headers.get("x-request-id") or str(body.get("id") or "")
        return Answer(status, body, request_id)
    raise Broken(f"status {status} without a proper answer")


def tokens(answer: Answer) -> tuple[int, int, int]:
    """Prompt, cached and output tokens of an answer, as it says."""
    usage = answer.body.get("usage")
    if not isinstance(usage, dict):
        return 0, 0, 0
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return _count(usage.get("prompt_tokens")), _count(cached), _count(usage.get("completion_tokens"))


def _count(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _is_completion(body: Any) -> bool:
    """An error object inside a 200 is none."""
    if not isinstance(body, dict) or body.get("error") or body.get("object") == "error":
        return False
    choices = body.get("choices")
    return isinstance(choices, list) and bool(choices) and all(isinstance(choice, dict) for choice in choices)


def _is_error(body: Any) -> bool:
    return isinstance(body, dict) and (bool(body.get("error")) or body.get("object") == "error")


def _retry_after_s(headers: Mapping[str, str]) -> float:
    try:
        return min(60.0, max(0.0, float(headers.get("retry-after", "0"))))
    except ValueError:
        return 0.0
