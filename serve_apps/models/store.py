"""The store of prepared models: a folder a model under the user's cache, each there whole or not at all.

A model is made in a scratch folder beside its place, made durable, marked as finished and renamed into place. One
preparation runs at a time; what a killed one left is swept by the next.
"""

import errno
import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from configs.models import MARKER, Marker, Model, Models, PathSource, models_dir, read_marker, target
from serve_apps.models import files, sources
from serve_apps.models.dequantise import gguf_to_fp32
from serve_apps.models.errors import NoSpace
from serve_apps.models.files import Report
from serve_apps.models.quantise import to_w8a8
from serve_apps.models.smooth import smooth
from serve_apps.models.split_vits import split_vits

_SCRATCH = ".scratch-"
_CONVERSIONS: dict[str, Callable[[Path, Path, Report], None]] = {
    "gguf-to-fp32": gguf_to_fp32,
    "smooth": smooth,
    "to-w8a8": to_w8a8,
    "split-vits": split_vits,
}


def prepare(name: str, model: Model, report: Report, again: bool = False) -> Path:
    """The folder of the prepared model, made if it is not there whole, or `again`. Raises PreparationError."""
    place = target(name, model)
    root = models_dir()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _alone(root, report):
            _sweep(root)
            if read_marker(place) and not again:
                return place
            _check_space(name, model, root)
            scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=root))
            try:
                made = _make(model, scratch, report)
                report("write to disk", 0, None)
                _finish(made, model.fingerprint)
                if place.exists():  # damaged, or to be made again
                    place.rename(scratch / "old")
                made.rename(place)
                files.sync(root)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace(f"{name}: the disk of {root} is full: {_MAKE_ROOM}") from error
        raise
    return place


def unused(models: Models) -> list[Path]:
    """The folders in the store that models.yaml does not name any more, and what killed preparations left."""
    keep = {target(name, model) for name, model in models.models.items()}
    return sorted(path for path in models_dir().glob("*") if path.is_dir() and path not in keep)


def prune(models: Models, report: Report) -> list[tuple[Path, int]]:
    """Remove what is `unused`; each folder's path and bytes."""
    if not models_dir().is_dir():
        return []
    removed = []
    with _alone(models_dir(), report):
        for path in unused(models):
            removed.append((path, files.size_bytes(path)))
            (path / MARKER).unlink(missing_ok=True)  # from here on it does not look finished
            shutil.rmtree(path)
    return removed


def _make(model: Model, scratch: Path, report: Report) -> Path:
    made = scratch / "source"
    sources.fetch(model.source, made, report)
    for number, step in enumerate(model.convert):
        converted = scratch / f"step-{number}"
        converted.mkdir()
        _CONVERSIONS[step](made, converted, report)
        shutil.rmtree(made)
        made = converted
    return made


def _finish(made: Path, fingerprint: str) -> None:
    sizes = {str(path.relative_to(made)): path.stat().st_size for path in sorted(made.rglob("*")) if path.is_file()}
    files.sync_all(made)
    (made / MARKER).write_text(Marker(fingerprint=fingerprint, files=sizes).model_dump_json(indent=1) + "\n")
    files.sync(made / MARKER)
    files.sync(made)


_MAKE_ROOM = "free some space, or set FIRSTCLAUSE_CACHE to a folder on a roomier disk; then try again"


def _check_space(name: str, model: Model, root: Path) -> None:
    needed = model.peak_bytes
    if needed is None and isinstance(model.source, PathSource):
        needed = files.size_bytes(model.source.path.expanduser()) * (1 + len(model.convert))
    free = shutil.disk_usage(root).free
    if needed is not None and free < needed:
        raise NoSpace(f"{name} needs {needed / 1e9:.1f} GB in {root}, which has {free / 1e9:.1f} GB free: {_MAKE_ROOM}")


def _sweep(root: Path) -> None:
    for path in root.glob(f"{_SCRATCH}*"):
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _alone(root: Path, report: Report) -> Iterator[None]:
    """Hold the store's lock; the system frees it when its holder dies."""
    with (root / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("wait for another preparation to end", 0, None)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
