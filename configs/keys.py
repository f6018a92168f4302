"""Making, rotating and revoking keys: changes to the file that `firstclause tenants` writes.

Each change reads the file, and replaces it at once; two at a time wait for each other.
"""

import fcntl
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from ruamel.yaml import YAML

from configs.errors import InputError
from configs.schema import load, parse
from configs.tenants import KEY_PREFIX, Key, TenantConfig, TenantsConfig, hash_key

T = TypeVar("T")
HEAD = "# Written by `firstclause tenants`: tenants, and the SHA-256 of their keys.\n"


def new_key(tenant: str) -> tuple[str, Key]:
    """A secret of 256 random bits, and what is kept of it."""
    secret = f"{KEY_PREFIX}{secrets.token_urlsafe(32)}"
    digest = hash_key(secret)
    return secret, Key(id=digest[:8], tenant=tenant, sha256=digest, created_at=_now())


def add(file: Path, name: str, config: TenantConfig) -> str:
    """A new tenant's key. Raises InputError if there is such a tenant."""

    parse(TenantsConfig, {"tenants": {name: {}}}, "tenants")  # the name's own rules

    def change(before: TenantsConfig) -> tuple[TenantsConfig, str]:
        if name in before.tenants:
            raise InputError(str(file), "tenants", name, "there is such a tenant; rotate gives it another key")
        secret, key = new_key(name)
        return _with(before, tenants={**before.tenants, name: config}, keys=(*before.keys, key)), secret

    return _changed(file, change)


def rotate(file: Path, name: str, grace: timedelta) -> str:
    """Another key for a tenant; its old ones end after `grace`. Raises InputError if there is no such tenant."""

    def change(before: TenantsConfig) -> tuple[TenantsConfig, str]:
        _known(file, before, name)
        secret, key = new_key(name)
        return _with(before, keys=(*_ended(before.keys, name, _now() + grace), key)), secret

    return _changed(file, change)


def revoke(file: Path, name: str) -> int:
    """End all keys of a tenant now; how many that ended. Raises InputError if there is no such tenant."""

    def change(before: TenantsConfig) -> tuple[TenantsConfig, int]:
        _known(file, before, name)
        keys = _ended(before.keys, name, _now())
        return _with(before, keys=keys), sum(new != old for new, old in zip(keys, before.keys, strict=True))

    return _changed(file, change)


def _known(file: Path, config: TenantsConfig, name: str) -> None:
    if name not in config.tenants:
        known = ", ".join(config.tenants) or "none"
        raise InputError(str(file), "tenants", name, f"no such tenant; there are {known}")


def _ended(keys: tuple[Key, ...], tenant: str, at: datetime) -> tuple[Key, ...]:
    return tuple(
        key.model_copy(update={"ends_at": at})
        if key.tenant == tenant and (key.ends_at is None or key.ends_at > at)
        else key
        for key in keys
    )


def _with(config: TenantsConfig, **changes: Any) -> TenantsConfig:
    return config.model_copy(update=changes)


def _changed(file: Path, change: Callable[[TenantsConfig], tuple[TenantsConfig, T]]) -> T:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(file.with_suffix(".lock")):
        before = load(TenantsConfig, file) if file.exists() else TenantsConfig()
        after, result = change(before)
        data = after.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        parse(TenantsConfig, data, str(file))  # what is written can be read
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=".tenants")  # readable by its owner alone
        with os.fdopen(descriptor, "w") as written:
            written.write(HEAD)
            yaml = YAML(typ="safe", pure=True)
            yaml.default_flow_style = False
            yaml.dump(data, written)
        Path(name).replace(file)
    return result


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
