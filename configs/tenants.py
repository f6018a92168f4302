"""Tenants and their keys: who a request is from, how urgent it is and what salts its cache.

A key is shown once, when it is made; what is kept is its SHA-256. A key has 256 random bits, so that a plain hash
cannot be searched, and looking it up by its hash tells an observer of the time nothing of use.

Unauthorized          401: retry with another key
    MissingKey        no key, or a header that is no bearer's
    UnknownKey        no such key
    RevokedKey        it was revoked, or has expired
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, StringConstraints, model_validator

from configs.schema import Frozen, load
from configs.state import state_dir

TENANTS_YAML = Path(__file__).parent / "tenants.yaml"
KEY_PREFIX = "fc-"

TenantClass = Literal["voice", "interactive", "batch"]
PRIORITIES: dict[TenantClass, int] = {"voice": 0, "interactive": 10, "batch": 20}
"""vLLM's request priority: the smaller goes first."""
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
Positive = Annotated[float, Field(gt=0)]


class Unauthorized(Exception):
    """No tenant has this key."""


class MissingKey(Unauthorized):
    def __init__(self) -> None:
        super().__init__("this deployment asks for a key: send it as 'Authorization: Bearer fc-…'")


class UnknownKey(Unauthorized):
    def __init__(self) -> None:
        super().__init__("there is no such key")


class RevokedKey(Unauthorized):
    def __init__(self) -> None:
        super().__init__("this key was revoked or has expired")


class Quota(Frozen):
    """A bucket of resource tokens (planning.quotas) that fills at `rate_rt_per_s` up to `burst_rt`."""

    rate_rt_per_s: Positive
    burst_rt: Positive


class TenantConfig(Frozen):
    """`weight`: the tenant's share in the fair order; `max_kv_share`: of a replica's KV memory; no quota: no limit."""

    tenant_class: Annotated[TenantClass, Field(alias="class")] = "interactive"
    quota: Quota | None = None
    max_kv_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    weight: Positive = 1.0


class Key(Frozen):
    """What is kept of a key."""

    id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}$")]
    tenant: Name
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    created_at: AwareDatetime
    ends_at: AwareDatetime | None = None
    """From when it is refused: now when it is revoked, later when it is rotated with a grace."""


class TenantsConfig(Frozen):
    """tenants.yaml, and the file that `firstclause tenants` writes."""

    file: Path | None = None
    anonymous: Name | None = None
    tenants: dict[Name, TenantConfig] = Field(default_factory=dict)
    keys: tuple[Key, ...] = ()

    @model_validator(mode="after")
    def _unique(self) -> "TenantsConfig":
        ids = [key.id for key in self.keys]
        if len(set(ids)) < len(ids):
            raise ValueError("two keys have the same id")
        return self


@dataclass(frozen=True, slots=True)
class Tenant:
    """Whom a request is from. `key_id` is None for who calls without a key."""

    name: str
    config: TenantConfig
    key_id: str | None = None

    @property
    def priority(self) -> int:
        """vLLM's."""
        return PRIORITIES[self.config.tenant_class]

    @property
    def cache_salt(self) -> str:
        """What separates this tenant's prefix cache from all others'."""
        return cache_salt(self.name)


class Tenants:
    """All tenants and keys of a deployment at one moment."""

    def __init__(self, *files: TenantsConfig) -> None:
        """Later files add to earlier ones, and replace tenants of the same name."""
        self._configs = {name: config for file in files for name, config in file.tenants.items()}
        self._anonymous = next((file.anonymous for file in reversed(files) if file.anonymous), None)
        self._keys = {key.sha256: key for file in files for key in file.keys}
        for name in [self._anonymous, *(key.tenant for key in self._keys.values())]:
            if name is not None and name not in self._configs:
                raise ValueError(f"{name!r} is no tenant; there are {', '.join(self._configs)}")

    @property
    def has_keys(self) -> bool:
        return bool(self._keys)

    def named(self, name: str) -> Tenant:
        """A tenant by its name, for what calls inside the deployment. Raises KeyError."""
        return Tenant(name, self._configs[name])

    def identify(self, authorization: str | None, is_open: bool, now: datetime | None = None) -> Tenant:
        """The tenant whose key an Authorization header bears. Raises Unauthorized.

        `is_open`: without a key of ours (clients of an open server send what they like) it is the anonymous tenant.
        """
        scheme, _, secret = (authorization or "").strip().partition(" ")
        secret = secret.strip()
        if scheme.lower() != "bearer" or not secret.startswith(KEY_PREFIX):
            if is_open and self._anonymous:
                return self.named(self._anonymous)
            raise UnknownKey if secret else MissingKey
        key = self._keys.get(hash_key(secret))
        if key is None:
            raise UnknownKey
        if key.ends_at is not None and key.ends_at <= (now or datetime.now(UTC)):
            raise RevokedKey
        return Tenant(key.tenant, self._configs[key.tenant], key.id)


class TenantsFiles:
    """The tenants as the files say now: read again when the user's file changes, so that a revoked key ends at once."""

    def __init__(self, path: Path = TENANTS_YAML) -> None:
        """Raises InputError."""
        self._base = load(TenantsConfig, path)
        self.file = self._base.file or state_dir() / "tenants.yaml"
        self._stamp: tuple[int, int, int] | None = None
        self._tenants = Tenants(self._base)

    def current(self) -> Tenants:
        """Raises InputError when the file was changed into something that cannot be read."""
        stamp = _stamp(self.file)
        if stamp != self._stamp:
            own = [load(TenantsConfig, self.file)] if stamp else []
            self._tenants = Tenants(self._base, *own)
            self._stamp = stamp
        return self._tenants


def hash_key(secret: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(secret.encode()).hexdigest()


def cache_salt(*parts: str) -> str:
    """SHA-256 over the parts, each after its length in 8 bytes, big-endian: no two lists of parts run together."""
    digest = hashlib.sha256()
    for part in ("firstclause cache salt 1", *parts):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
