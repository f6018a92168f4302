"""What a deployment adds when it leaves one machine: TLS, who may open the page, which nodes run what, its rollout."""

import ssl
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from configs.schema import Frozen

Seconds = Annotated[float, Field(gt=0, le=86_400)]
Selector = dict[Annotated[str, Field(min_length=1)], str]
"""Ray's label selector: {label: value}, `!value`, `in(a, b)`; a node is labelled by `ray start --labels`."""


class Tls(Frozen):
    """A certificate (PEM, its chain behind it) and its key, at the same paths on every node that serves HTTP."""

    certificate: Path
    key: Path

    def trust(self) -> ssl.SSLContext:
        """For a client on a node that serves with it: this certificate, whatever name the node is asked by."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context


class Access(Frozen):
    """Who may open the page and call (`/`, `/voice/*`). The API under /v1 has keys of its own."""

    login: Literal["open", "link"] | None = None
    """`link`: a signed link that `firstclause link` makes. None: open on a loopback address, else by link."""
    secret_env: str = "FIRSTCLAUSE_LINK_SECRET"
    """The environment variable, on every node, with the key or keys (newest first, by commas) that sign links."""
    twilio_env: str = "TWILIO_AUTH_TOKEN"
    """The environment variable with the account's token, which Twilio signs its calls to /voice/twilio with: a link
    does not reach it."""
    origins: tuple[str, ...] = ()
    """Origins whose pages may call beside the page's own, as `https://example.com`."""
    proxies: Annotated[int, Field(ge=0, le=10)] = 0
    """Trusted proxies in front: the caller's address is that many entries from the end of X-Forwarded-For."""
    requests_per_min: Annotated[int, Field(ge=1)] = 600
    """Of one address to one replica; files of the page count."""
    calls_per_min: Annotated[int, Field(ge=1)] = 30
    """Of one address to one replica, answered or not."""
    max_body_bytes: Annotated[int, Field(ge=1024, le=16_777_216)] = 262_144


class Tier(Frozen):
    """Replicas of one kind: which nodes take them, and how they are exchanged for new ones."""

    nodes: Selector = Field(default_factory=dict)
    """Which nodes, by their labels; empty is any."""
    surge_percent: Annotated[int, Field(ge=0, le=100)] = 100
    """Replicas of a new version that start before old ones stop; the cluster needs the room (GPUs too). At 0 an old
    one stops first, and a tier of one replica is away meanwhile."""


class Rollout(Frozen):
    """How `firstclause deploy` brings a version up."""

    deadline_s: Seconds = 1200
    """A version that does not serve by then is rolled back."""


class Retention(Frozen):
    """How long `firstclause purge` leaves what is kept; None: for ever. Calls are not recorded at all."""

    batch_files_days: Annotated[float, Field(gt=0)] | None = 30
    """From their upload, or from when a batch made them; a running batch's stay until it ends."""
    usage_days: Annotated[float, Field(gt=0)] | None = 400
    """Lines of the bill, request by request."""
