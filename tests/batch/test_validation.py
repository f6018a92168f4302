"""What is in an input file, and what is wrong with it, line by line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batch.files import Contents
from batch.rows import Request
from batch.source import MAX_LINE_BYTES, Source
from batch.validation import Findings, Stopped, validate

ENDPOINT = "/v1/chat/completions"
Check = Callable[[bytes], Findings]


def row(custom_id: Any = "a", **change: Any) -> dict[str, Any]:
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    return {"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": body} | change


def jsonl(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in rows)


@pytest.fixture
def source(contents: Contents) -> Callable[[bytes], Source]:
    def of(data: bytes) -> Source:
        with contents.create("file-x") as file:
            file.write(data)
        return Source(lambda: contents.open("file-x"), ENDPOINT, window_rows=10, window_bytes=65_536)

    return of


@pytest.fixture
def check(source: Callable[[bytes], Source]) -> Check:
    return lambda data: validate(source(data), 2000, 100, lambda: False)


def codes(found: Findings) -> list[tuple[str, int | None]]:
    return [(error.code, error.line) for error in found.errors]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"custom_id": "b", "meth', "invalid_json_line"),
        (b"not json", "invalid_json_line"),
        (b"[1, 2]", "invalid_json_line"),
        (b'"text"', "invalid_json_line"),
        (b"null", "invalid_json_line"),
        (b'{"custom_id": NaN}', "invalid_json_line"),
        (b"\xff\xfe{}", "invalid_json_line"),
        (b"[" * 100_000, "invalid_json_line"),
        (json.dumps(row(None)).encode(), "missing_required_parameter"),
        (json.dumps(row("")).encode(), "invalid_custom_id"),
        (json.dumps(row(7)).encode(), "invalid_custom_id"),
        (json.dumps(row("x" * 600)).encode(), "invalid_custom_id"),
        (b'{"custom_id": "\\ud800", "method": "POST", "url": "u", "body": {}}', "invalid_custom_id"),
        (
            json.dumps({"method": "POST", "url": ENDPOINT, "body": {"model": "m"}}).encode(),
            "missing_required_parameter",
        ),
        (json.dumps(row("b", method="GET")).encode(), "invalid_method"),
        (json.dumps(row("b", url="/v1/embeddings")).encode(), "url_mismatch"),
        (json.dumps(row("b", body="text")).encode(), "invalid_body"),
        (json.dumps(row("b", body=None)).encode(), "missing_required_parameter"),
        (json.dumps(row("b", body={"messages": []})).encode(), "missing_required_parameter"),
        (json.dumps(row("b", body={"model": "other"})).encode(), "model_mismatch"),
        (json.dumps(row("a")).encode(), "duplicate_custom_id"),
        (b"x" * (MAX_LINE_BYTES + 10), "line_too_long"),
    ],
)
def test_a_bad_line_is_named(check: Check, line: bytes, code: str) -> None:
    found = check(jsonl(row("a")) + b"\n" + line + b"\n" + jsonl(row("c")))
    assert codes(found) == [(code, 3)], "the blank line counts as a line"


def test_good_lines_blank_lines_and_a_byte_order_mark(check: Check) -> None:
    found = check(b"\xef\xbb\xbf" + jsonl(row("a")) + b"\n  \n" + jsonl(row("b")).rstrip())
    assert codes(found) == [] and found.rows == 2 and found.last_row == 4 and found.model == "m"


@pytest.mark.parametrize("data", [b"", b"\n\n \n", b"\xef\xbb\xbf"])
def test_a_file_without_a_request(check: Check, data: bytes) -> None:
    assert codes(check(data)) == [("empty_file", None)]


def test_a_thousand_good_rows_then_one_bad(check: Check) -> None:
    rows = jsonl(*(row(f"id-{number}") for number in range(1000)))
    assert codes(check(rows + b"{")) == [("invalid_json_line", 1001)]


def test_what_is_too_much(check: Check) -> None:
    assert codes(check(jsonl(*(row(f"id-{number}") for number in range(2001))))) == [("too_many_rows", None)]
    assert len(check(b"x\n" * 5000).errors) == 100


def test_every_duplicate_is_named_with_its_own_line(check: Check) -> None:
    found = check(jsonl(row("a"), row("b"), row("a"), row("b"), row("a")))
    assert codes(found) == [("duplicate_custom_id", line) for line in (3, 4, 5)]
    assert "line 1" in found.errors[0].message


def test_a_validation_can_be_stopped(source: Callable[[bytes], Source]) -> None:
    with pytest.raises(Stopped):
        validate(source(jsonl(*(row(f"id-{number}") for number in range(1500)))), None, 10, lambda: True)


def test_windows_have_all_rows_once(source: Callable[[bytes], Source]) -> None:
    given = source(jsonl(*(row(f"id-{number}") for number in range(95))))
    spans = validate(given, None, 10, lambda: False).spans
    windows = [window for span in spans for window in given.windows(span)]
    assert max(len(window) for window in windows) == 10
    assert [request.row for window in windows for request in window] == list(range(95))


def parquet(path: Path, rows: list[dict[str, Any]], group_rows: int = 30) -> bytes:
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=group_rows)
    return path.read_bytes()


@pytest.mark.parametrize("as_text", [True, False])
def test_parquet_rows_are_the_same_rows(
    source: Callable[[bytes], Source], tmp_path: Path, as_text: bool
) -> None:  # fmt: skip
    rows = [row(f"id-{number}") for number in range(70)]
    rows[3]["body"]["max_tokens"] = 5  # null in all other rows' structs
    given = [one | {"body": json.dumps(one["body"])} for one in rows] if as_text else rows
    file = source(parquet(tmp_path / "rows.parquet", given))
    found = validate(file, None, 10, lambda: False)
    assert codes(found) == [] and found.rows == 70 and len(found.spans) == 3
    read = [request for span in found.spans for window in file.windows(span) for request in window]
    assert [request.body for request in read] == [one["body"] for one in rows]
    assert [request.row for request in read] == list(range(70))


def test_bad_parquet(check: Check, tmp_path: Path) -> None:
    rows = [row("a"), row("b") | {"body": None}, row(None)]
    found = check(parquet(tmp_path / "rows.parquet", rows))
    assert codes(found) == [("missing_required_parameter", 2), ("missing_required_parameter", 3)]
    whole = parquet(tmp_path / "whole.parquet", [row(f"id-{number}") for number in range(9)])
    assert codes(check(whole[:-20])) == [("invalid_file", None)]


def test_rows_that_may_share_an_answer() -> None:
    def key(**body: Any) -> str | None:
        messages = [{"role": "user", "content": "hello"}]
        return Request(0, "a", "m", {"model": "m", "messages": messages, **body}).twin_key

    assert key(temperature=0) == key(temperature=0) is not None
    assert key(seed=7, temperature=1) == key(temperature=1, seed=7) is not None
    assert key() is None and key(temperature=0.5) is None
    assert key(temperature=0) != key(temperature=0, max_tokens=3)
