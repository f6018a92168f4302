"""A load: what to send where, and when. The YAML files that `firstclause loadtest voice` and `llm` take."""

import ipaddress
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from configs.errors import InputError
from configs.schema import Frozen, parse, read_yaml
from loadtests.arrivals import Arrivals
from loadtests.draws import Distribution

LOADS = Path(__file__).parent.parent / "configs" / "loads"

Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Milliseconds = Annotated[float, Field(gt=0)]


class Load(Frozen):
    """What both users share."""

    url: str = "http://127.0.0.1:8000"
    seed: int = 1
    arrivals: Arrivals
    late_ms: Milliseconds = 20
    """A start later than this is late."""
    late_share_max: Share = 0.01
    """The run is void above this share of late starts (or of late audio frames)."""
    give_up_after_s: Seconds = 10
    """The run ends when for this long nothing could be reached and nothing succeeded."""

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("expected http://HOST:PORT or https://HOST:PORT")
        return url

    def expected_s(self) -> float | None:
        """How long arrivals go on; None for a trace."""
        return None if self.arrivals.kind == "trace" else sum(s.duration_s for s in self.arrivals.all_stages())

    def require_loopback(self, allowed: bool) -> None:
        """Raises InputError for a target off this machine, unless it was allowed explicitly."""
        require_loopback(self.url, allowed)


class Prefixes(Frozen):
    """System prompts shared between conversations: `groups` of them, their popularity Zipf's."""

    groups: Annotated[int, Field(ge=1, le=100_000)] = 1
    tokens: Distribution
    zipf: Annotated[float, Field(ge=0, le=10)] = 1.0


class Prompts(Frozen):
    """Generated words (about a token each), or the conversations of a JSON Lines file."""

    tokens: Distribution | None = None
    shared_prefix: Prefixes | None = None
    dataset: Path | None = None
    """Each line an object with `prompt`, or with `messages` of roles and contents."""


class Tenant(Frozen):
    """A caller with a key of its own, taken from the environment."""

    name: Annotated[str, Field(min_length=1)]
    key_env: str | None = None
    weight: Weight = 1


class LlmSlo(Frozen):
    """What a request has to meet to count as goodput. TTFT counts from the due moment."""

    due_ttft_ms: Milliseconds | None = None
    inter_token_ms: Milliseconds | None = None
    e2e_ms: Milliseconds | None = None


class LlmLoad(Load):
    """Conversations with an OpenAI-compatible server."""

    user: Literal["llm"] = "llm"
    model: str | None = None
    """None: the first that the server lists."""
    adapters: dict[str, Weight] = Field(default_factory=dict)
    """Model names of adapters, drawn by weight instead of `model`."""
    tenants: tuple[Tenant, ...] = ()
    prompts: Prompts
    turns: Annotated[int, Field(ge=1, le=100)] = 1
    """Requests of a conversation: each takes the history so far along."""
    think_s: Distribution = Distribution(mean=1.0)
    """Between an answer's end and the conversation's next request."""
    output_tokens: Distribution = Distribution(mean=32)
    ignore_eos: bool = False
    """Ask the server (vLLM's extension) to go on to max_tokens whatever the model says."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    extra_body: dict[str, Any] = Field(default_factory=dict)
    timeout_s: Seconds = 60
    slo: LlmSlo = LlmSlo()


class VoiceSlo(Frozen):
    response_ms: Milliseconds = 300


class VoiceLoad(Load):
    """Calls to the voice application over its WebSocket."""

    user: Literal["voice"] = "voice"
    clips: Path | None = None
    """A folder of audio files that callers speak; None: `questions`, spoken by the speech model."""
    questions: tuple[str, ...] = ()
    turns: Annotated[int, Field(ge=1, le=100)] = 3
    think_s: Distribution = Distribution(kind="uniform", low=0.4, high=1.2)
    """From an answer's last sound to the caller's next clip."""
    barge_in_share: Share = 0.0
    """Turns in which the caller does not wait for the answer's end."""
    barge_in_after_s: Distribution = Distribution(mean=1.0)
    """From the answer's first sound to the caller's next."""
    reply_timeout_s: Seconds = 15
    hear: bool = True
    """After the run, transcribe what the agent said and compare it with the reply's text."""
    slo: VoiceSlo = VoiceSlo()


def read_load(user: str, path: Path | None, overrides: dict[str, Any]) -> "LlmLoad | VoiceLoad":
    """The load in a file (default: configs/loads/USER.yaml), with overrides by dotted key. Raises InputError."""
    path = path or LOADS / f"{user}.yaml"
    data = read_yaml(path)
    for key, value in overrides.items():
        _override(data, key, value)
    model: type[LlmLoad] | type[VoiceLoad] = LlmLoad if user == "llm" else VoiceLoad
    if data.get("user", user) != user:
        raise InputError(str(path), "user", data["user"], f"this is no load of `loadtest {user}`")
    return parse(model, data, str(path))


def require_loopback(url: str, allowed: bool) -> None:
    """Raises InputError for a target off this machine, unless it was allowed explicitly."""
    if not allowed and not _is_loopback(urlsplit(url).hostname or ""):
        raise InputError("load", "url", url, "is not this machine; a load test of another one needs --allow-remote")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _override(data: dict[str, Any], key: str, value: Any) -> None:
    *outer, last = key.split(".")
    for name in outer:
        inner = data.setdefault(name, {})
        if not isinstance(inner, dict):
            raise InputError("--set", key, value, f"{name} is no mapping")
        data = inner
    data[last] = value
