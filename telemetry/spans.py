"""Spans of time, as (begin, end) in seconds."""

from collections.abc import Iterable


def covered_s(spans: Iterable[tuple[float, float]]) -> float:
    """The length of the spans' union. One that ends before it begins covers nothing."""
    total_s, end_s = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total_s += max(0.0, end - max(begin, end_s))
        end_s = max(end_s, end)
    return total_s
