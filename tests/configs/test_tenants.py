"""Who a key belongs to, what is kept of it, and the salts."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from configs import keys
from configs.errors import InputError
from configs.gateway import GatewayConfig
from configs.schema import parse
from configs.tenants import (
    PRIORITIES,
    MissingKey,
    RevokedKey,
    TenantConfig,
    Tenants,
    TenantsConfig,
    TenantsFiles,
    UnknownKey,
    cache_salt,
)


@pytest.fixture
def files(tmp_path: Path) -> TenantsFiles:
    base = tmp_path / "tenants.yaml"
    own = tmp_path / "state" / "own.yaml"
    base.write_text(f"file: {own}\nanonymous: local\ntenants: {{local: {{}}, voice: {{class: voice}}}}\n")
    return TenantsFiles(base)


def bearer(secret: str) -> str:
    return f"Bearer {secret}"


def test_a_key_is_its_tenants_and_only_its_hash_is_kept(files: TenantsFiles) -> None:
    secret = keys.add(files.file, "acme", parse(TenantConfig, {"class": "batch"}, "test"))
    tenant = files.current().identify(bearer(secret), is_open=False)
    assert (tenant.name, tenant.priority) == ("acme", PRIORITIES["batch"])
    written = files.file.read_text()
    assert secret not in written and secret.removeprefix("fc-") not in written
    assert stat.S_IMODE(files.file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("header", "error"),
    [
        (None, MissingKey),
        ("", MissingKey),
        ("Bearer", MissingKey),
        ("Bearer fc-unknown", UnknownKey),
        ("Bearer sk-anything", UnknownKey),
        ("Basic dXNlcjpwYXNz", UnknownKey),
        ("bearer fc-" + "é" * 5000, UnknownKey),
    ],
)
def test_without_a_key_a_closed_door_stays_closed(files: TenantsFiles, header: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        files.current().identify(header, is_open=False)


def test_an_open_door_takes_what_clients_send_but_no_wrong_key_of_ours(files: TenantsFiles) -> None:
    for header in (None, "Bearer sk-anything", "Bearer EMPTY"):
        assert files.current().identify(header, is_open=True).name == "local"
    with pytest.raises(UnknownKey):
        files.current().identify("Bearer fc-wrong", is_open=True)


def test_a_revoked_key_ends_at_once(files: TenantsFiles) -> None:
    secret = keys.add(files.file, "acme", TenantConfig())
    assert files.current().identify(bearer(secret), is_open=True).name == "acme"
    assert keys.revoke(files.file, "acme") == 1
    with pytest.raises(RevokedKey):
        files.current().identify(bearer(secret), is_open=True)
    assert keys.revoke(files.file, "acme") == 0


def test_a_rotated_key_lasts_for_its_grace(files: TenantsFiles) -> None:
    old = keys.add(files.file, "acme", TenantConfig())
    new = keys.rotate(files.file, "acme", timedelta(hours=1))
    now = datetime.now(UTC)
    tenants = files.current()
    assert tenants.identify(bearer(old), False, now).key_id != tenants.identify(bearer(new), False, now).key_id
    with pytest.raises(RevokedKey):
        tenants.identify(bearer(old), False, now + timedelta(hours=1, seconds=1))
    assert tenants.identify(bearer(new), False, now + timedelta(days=300)).name == "acme"


def test_revoking_after_a_rotation_does_not_wait_for_the_grace(files: TenantsFiles) -> None:
    old = keys.add(files.file, "acme", TenantConfig())
    keys.rotate(files.file, "acme", timedelta(hours=1))
    assert keys.revoke(files.file, "acme") == 2
    with pytest.raises(RevokedKey):
        files.current().identify(bearer(old), False)


def test_what_cannot_be_is_refused(files: TenantsFiles) -> None:
    keys.add(files.file, "acme", TenantConfig())
    with pytest.raises(InputError, match="acme"):
        keys.add(files.file, "acme", TenantConfig())
    with pytest.raises(InputError, match="nobody"):
        keys.rotate(files.file, "nobody", timedelta(0))
    with pytest.raises(InputError, match="No Name"):
        keys.add(files.file, "No Name", TenantConfig())
    with pytest.raises(ValueError, match="ghost"):
        Tenants(parse(TenantsConfig, {"anonymous": "ghost"}, "test"))


def test_salts_are_known() -> None:
    """Vectors worked out with sha256sum: each part after its length in eight bytes."""
    assert cache_salt() == "b973c8d43b939e3fd3ec2aeeb76f96185ea9abc5249eecc03dafe15c2f5a3bfa"
    assert cache_salt("acme") == "601efc05b5fde552eb5f0c051944d865a18aeb129979279d9d23a3132ff63966"
    assert cache_salt("ac", "me") == "3ecd6eff6270c31097cfc950b121e62ee6e5b15018b368c0bad54572ec6b580c"
    assert cache_salt("acmé") == "34a62ff5675880c08991c5bc215b39ff4a4590d42f6ee07c5695ee2529bf806c"


def test_no_two_lists_of_parts_run_together() -> None:
    lists = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), ("a", "b", "c")]
    assert len({cache_salt(*parts) for parts in lists}) == len(lists)


def test_nobody_listens_elsewhere_without_keys(files: TenantsFiles, tmp_path: Path) -> None:
    config = GatewayConfig(tenants=tmp_path / "tenants.yaml")
    assert config.is_open(loopback=True) and not config.is_open(loopback=False)
    config.check("127.0.0.1", loopback=True)
    with pytest.raises(InputError, match="tenants add"):
        config.check("0.0.0.0", loopback=False)
    keys.add(files.file, "acme", TenantConfig())
    config.check("0.0.0.0", loopback=False)
    with pytest.raises(InputError, match=r"gateway\.open"):
        GatewayConfig(tenants=tmp_path / "tenants.yaml", open=True).check("0.0.0.0", loopback=False)
