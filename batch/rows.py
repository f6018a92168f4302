"""What one row of a batch's input is: checked, and told apart from what it is not. Pure."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from configs.tenants import PRIORITIES

MAX_CUSTOM_ID = 512


@dataclass(frozen=True, slots=True)
class LineError:
    """Why a line is no request; `line` counts from 1."""

    code: str
    message: str
    param: str | None
    line: int | None

    def document(self) -> dict[str, Any]:
        """As a batch's `errors` lists it."""
        return {"code": self.code, "message": self.message, "param": self.param, "line": self.line}


@dataclass(frozen=True, slots=True)
class Request:
    """Row `row` (from 0) of a file. `refusal` says why its body is not sent: it ends in the error file."""

    row: int
    custom_id: str
    model: str
    body: dict[str, Any]
    refusal: str = ""

    @property
    def prompt(self) -> str:
        """The prompt as text, such that prompts which share a beginning do so here."""
        messages = self.body.get("messages")
        if isinstance(messages, list):
            return "\0".join(
                f"{message.get('role')}\0{message.get('content')}" if isinstance(message, dict) else repr(message)
                for message in messages
            )
        return str(self.body.get("prompt"))

    @property
    def twin_key(self) -> str | None:
        """Rows with the same one get the same answer; None where answers may differ."""
        if self.refusal or (self.body.get("temperature") != 0 and self.body.get("seed") is None):
            return None
        return hashlib.sha256(json.dumps(self.body, sort_keys=True).encode()).hexdigest()

    def sent(self) -> dict[str, Any]:
        """The body as the engine gets it: behind every caller."""
        return self.body | {"priority": PRIORITIES["batch"]}


def read_json(text: str | bytes) -> Any:
    """JSON proper: NaN and Infinity are none. Raises ValueError, RecursionError."""
    return json.loads(text, parse_constant=_no_number)


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def read_line(line: bytes, row: int, endpoint: str) -> Request | LineError:
    """One line of a JSONL file."""
    try:
        data = read_json(line)
    except (ValueError, RecursionError) as error:
        what = "not UTF-8" if isinstance(error, UnicodeDecodeError) else "not a whole JSON value"
        return LineError("invalid_json_line", f"This line is {what}.", None, row + 1)
    return read_row(data, row, endpoint)


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)


def read_row(data: object, row: int, endpoint: str) -> Request | LineError:
    """A row as a mapping of custom_id, method, url and body."""

    def wrong(code: str, message: str, param: str | None = None) -> LineError:
        return LineError(code, message, param, row + 1)

    if not isinstance(data, dict):
        return wrong("invalid_json_line", "This line is not a JSON object.")
    for key in ("custom_id", "method", "url", "body"):
        if data.get(key) is None:
            return wrong("missing_required_parameter", f"{key} is missing.", key)
    custom_id, body = data["custom_id"], data["body"]
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= MAX_CUSTOM_ID or not _is_text(custom_id):
        return wrong("invalid_custom_id", f"custom_id is a text of 1 to {MAX_CUSTOM_ID} characters.", "custom_id")
    if data["method"] != "POST":
        return wrong("invalid_method", "method is POST.", "method")
    if data["url"] != endpoint:
        return wrong("url_mismatch", f"url is the batch's endpoint, {endpoint}.", "url")
    if not isinstance(body, dict):
        return wrong("invalid_body", "body is an object.", "body")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        return wrong("missing_required_parameter", "body.model is missing.", "body.model")
    refusal = "stream: a batch's answers are not streamed" if body.get("stream") else ""
    return Request(row, custom_id, model, body, refusal)
