"""A store in a folder of its own, and pip cut off from the user's settings and pointed at hand-made wheels."""

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

MakeWheel = Callable[[str, dict[str, bytes]], None]


@pytest.fixture(autouse=True)
def store_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The empty store's folder of models."""
    monkeypatch.setenv("FIRSTCLAUSE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture(autouse=True)
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder that pip takes wheels from, and nowhere else."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return folder


@pytest.fixture
def make_wheel(index: Path) -> MakeWheel:
    """Put a wheel of that name, version 1.0, with those files into the index."""

    def make(name: str, contents: dict[str, bytes]) -> None:
        info = f"{name}-1.0.dist-info"
        described = {
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": b"",
        }
        with zipfile.ZipFile(index / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            for path, data in (contents | described).items():
                wheel.writestr(path, data)

    return make
