"""Models out of hand-made wheels, for tests of the store, and a process that prepares one."""

import hashlib
import subprocess
import sys

from configs.models import Model, PackageFile, PackageSource, WheelPart


def file_of(name: str, data: bytes, *parts: tuple[str, str]) -> PackageFile:
    """The file `name` that holds `data`, out of (wheel's name, member) parts."""
    where = tuple(WheelPart(wheel=f"{wheel}==1.0", member=member) for wheel, member in parts)
    return PackageFile(name=name, sha256=hashlib.sha256(data).hexdigest(), parts=where)


def package(*files: PackageFile, peak_bytes: int | None = None) -> Model:
    source = PackageSource(kind="package", files=files)
    return Model(about="", licence="MIT", origin="", source=source, peak_bytes=peak_bytes)


PREPARE = """
import sys
from configs.models import Model
from serve_apps.models import store
store.prepare(sys.argv[1], Model.model_validate_json(sys.argv[2]), lambda step, *_: print(step, flush=True))
"""


def preparation(
    name: str, model: Model, before: str = "", environment: dict[str, str] | None = None, prefix: tuple[str, ...] = ()
) -> "subprocess.Popen[str]":
    """A process that runs `before`, prepares the model and prints each step; `prefix` is a command it runs under."""
    command = [*prefix, sys.executable, "-c", before + PREPARE, name, model.model_dump_json()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
