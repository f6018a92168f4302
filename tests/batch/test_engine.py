"""What counts as an answer."""

from typing import Any

import pytest

from batch.engine import Broken, EngineError, Refused, judge, tokens

GOOD = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}}]}
ERROR = {"error": {"message": "too long", "type": "BadRequestError"}}


def test_answers() -> None:
    assert judge(200, GOOD, {"x-request-id": "7"}).request_id == "7"
    assert judge(400, ERROR, {}).status == 400
    assert judge(404, ERROR, {}).status == 404
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    assert tokens(judge(200, GOOD | {"usage": usage}, {})) == (9, 4, 2)
    assert tokens(judge(200, GOOD | {"usage": {"prompt_tokens": "nine"}}, {})) == (0, 0, 0)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, ERROR, Broken),
        (200, {"object": "error", "message": "dead"}, Broken),
        (200, GOOD | {"error": "dead"}, Broken),
        (200, {"choices": []}, Broken),
        (200, None, Broken),
        (200, "text", Broken),
        (400, "text", Broken),
        (404, "Not Found", Refused),
        (401, ERROR, Refused),
        (429, ERROR, Refused),
        (503, None, Refused),
        (500, ERROR, Broken),
        (502, None, Broken),
    ],
)
def test_what_only_looks_like_an_answer(status: int, body: Any, kind: type[EngineError]) -> None:
    with pytest.raises(kind):
        judge(status, body, {})


def test_the_engine_says_when_to_come_again() -> None:
    with pytest.raises(Refused) as refused:
        judge(429, ERROR, {"retry-after": "7"})
    assert refused.value.after_s == 7
    with pytest.raises(Refused) as refused:
        judge(429, ERROR, {"retry-after": "tomorrow"})
    assert refused.value.after_s == 0
