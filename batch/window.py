"""One window's rows as the engine is asked for them: equal ones once, those with one beginning together."""

import json
from collections.abc import Iterable

import pyarrow as pa

from batch.rows import Request

SCHEMA = pa.schema(
    [
        ("rows", pa.list_(pa.int64())),
        ("custom_ids", pa.list_(pa.string())),
        ("body", pa.string()),
        ("refusal", pa.string()),
    ]
)
"""A line is one question to the engine, with all rows that it answers. No column is ever null."""


def groups(requests: Iterable[Request], ordered: bool = True, deduplicated: bool = True) -> list[list[Request]]:
    """Rows that share an answer; sorted by prompt, so that a prefix cache has each prefix to hold only once.

    Sorting by text visits a tree of prefixes depth first: each is finished before the next is begun.
    """
    twins: dict[str, list[Request]] = {}
    found: list[list[Request]] = []
    for request in requests:
        key = request.twin_key if deduplicated else None
        if key is not None and key in twins:
            twins[key].append(request)
            continue
        group = [request]
        found.append(group)
        if key is not None:
            twins[key] = group
    return sorted(found, key=lambda group: group[0].prompt) if ordered else found


def table(found: list[list[Request]]) -> pa.Table:
    """The groups as a block of a Ray Data set."""
    columns = {
        "rows": [[request.row for request in group] for group in found],
        "custom_ids": [[request.custom_id for request in group] for group in found],
        "body": [json.dumps(group[0].body) for group in found],
        "refusal": [group[0].refusal for group in found],
    }
    return pa.table(columns, schema=SCHEMA)


def requests_of(line: dict[str, object]) -> list[Request]:
    """A line of the block as requests again."""
    body = json.loads(str(line["body"]))
    rows, custom_ids = line["rows"], line["custom_ids"]
    return [
        Request(int(row), str(custom_id), body["model"], body, str(line["refusal"]))
        for row, custom_id in zip(rows, custom_ids, strict=True)  # type: ignore[call-overload]
    ]
