"""What the voice application gets of what Ray's LLM server yields."""

import json
from types import SimpleNamespace

import pytest

from serve_apps.spoken import spoken


def event(content: str | None, finish_reason: str | None = None) -> str:
    delta = {} if content is None else {"content": content}
    return f"data: {json.dumps({'choices': [{'delta': delta, 'finish_reason': finish_reason}]})}\n\n"


def test_events_alone_and_in_lists_become_text() -> None:
    first, *rest = event(""), [event("One "), event("two.\n")], event(None, "length"), "data: [DONE]\n\n"
    assert list(spoken(first)) == []
    assert [piece for item in rest for piece in spoken(item)] == [("One ", None), ("two.\n", None), ("", "length")]


def test_an_event_without_choices_is_no_text() -> None:
    assert list(spoken('data: {"choices": [], "usage": {"prompt_tokens": 3}}\n\n')) == []


@pytest.mark.parametrize(
    "reply",
    [SimpleNamespace(error=SimpleNamespace(message="too long")), 'data: {"error": {"message": "too long"}}\n\n'],
)
def test_an_error_is_raised(reply: object) -> None:
    with pytest.raises(RuntimeError, match="too long"):
        list(spoken([reply]))


def test_what_is_no_reply_is_passed_over() -> None:
    assert list(spoken(SimpleNamespace(usage=3))) == []
