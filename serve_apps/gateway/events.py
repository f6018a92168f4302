"""An engine's stream, looked at as little as needed: where content begins, where an error is, where it ends."""

import json
from typing import Any

DONE = "data: [DONE]"
ERROR = 'data: {"error"'
CONTENT = ("content", "reasoning", "reasoning_content", "tool_calls")


def is_done(event: str) -> bool:
    return event.startswith(DONE)


def error_of(event: str) -> dict[str, Any] | None:
    """The error object of an error event; None for any other. (What a model writes is never at an event's head.)"""
    if not event.startswith(ERROR):
        return None
    try:
        error: dict[str, Any] = json.loads(event.removeprefix("data: "))["error"]
    except (ValueError, KeyError):
        return {}
    return error


def has_content(event: str) -> bool:
    """Whether a chunk carries anything that a reader would see."""
    try:
        choices = json.loads(event.removeprefix("data: "))["choices"]
    except (ValueError, KeyError):
        return False
    return any(
        choice.get("text") or any((choice.get("delta") or {}).get(name) for name in CONTENT) for choice in choices
    )
