"""The base of every configuration model, and the two functions that make one from a file or a mapping.

YAML is 1.2 (1e9 is a number, `no` is a word). Unknown keys, duplicate keys, NaN and infinity are refused;
what is wrong becomes one `InputError` that names the source, the key and the value.
"""

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from configs.errors import MISSING, InputError


class Frozen(BaseModel):
    """A frozen configuration object: unknown keys, NaN and infinity are refused; a string is never a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


ModelT = TypeVar("ModelT", bound=BaseModel)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML 1.2 file. Raises InputError if it is missing, not YAML, or no mapping."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(str(path), "", MISSING, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise InputError(str(path), "", MISSING, f"not UTF-8 text ({error.reason})") from error
    try:
        data = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError) as error:
        problem = " ".join(str(error).split())
        raise InputError(str(path), "", MISSING, f"not valid YAML: {problem}") from error
    if not isinstance(data, dict):
        raise InputError(str(path), "", MISSING, f"expected a mapping of keys to values, found {type(data).__name__}")
    return data


def parse(model: type[ModelT], data: dict[str, Any], source: str) -> ModelT:
    """`data` as a `model`. Raises InputError for the first thing that is wrong, naming key and value."""
    try:
        # JSON's rules: a list may become a tuple and a string a path or an enum, but a string is never a number.
        return model.model_validate_json(json.dumps(data, default=str))
    except ValidationError as error:
        raise _input_error(error, source) from error


def load(model: type[ModelT], path: Path) -> ModelT:
    """The file at `path` as a `model`. Raises InputError."""
    return parse(model, read_yaml(path), str(path))


def _input_error(error: ValidationError, source: str) -> InputError:
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return InputError(source, key, MISSING, "missing")
    problem = "unknown key" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
    value = MISSING if isinstance(first["input"], dict) and not key else first["input"]
    return InputError(source, key, value, problem)
