"""A row's last line, as the output and the error file have it."""

import json
import uuid
from typing import Any

from batch.engine import Answer, tokens
from batch.errors import error_object
from batch.journal import Entry, Kind
from batch.rows import Request


def answered(requests: list[Request], answer: Answer) -> list[Entry]:
    """The entries of rows that share an answer: the first has paid for it."""
    kind: Kind = "O" if answer.good else "E"
    response = {"status_code": answer.status, "request_id": answer.request_id, "body": answer.body}
    entries = []
    for number, request in enumerate(requests):
        prompt, cached, output = tokens(answer) if number == 0 else (0, 0, 0)
        entries.append(Entry(request.row, kind, prompt, cached, output, _line(request.custom_id, response, None)))
    return entries


def refused(requests: list[Request], message: str) -> list[Entry]:
    """Rows that the engine is not asked about: their own fault, as with 400."""
    response = {"status_code": 400, "request_id": "", "body": error_object(message, code="invalid_value")}
    return [Entry(one.row, "E", 0, 0, 0, _line(one.custom_id, response, None)) for one in requests]


def unanswered(requests: list[Request], code: str, message: str) -> list[Entry]:
    """Rows without an answer: 'batch_expired', 'batch_cancelled', 'engine_failed'."""
    error = {"code": code, "message": message}
    return [Entry(one.row, "E", 0, 0, 0, _line(one.custom_id, None, error)) for one in requests]


def _line(custom_id: str, response: dict[str, Any] | None, error: dict[str, str] | None) -> bytes:
    id = f"batch_req_{uuid.uuid4().hex}"
    return json.dumps({"id": id, "custom_id": custom_id, "response": response, "error": error}).encode()
