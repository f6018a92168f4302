"""Events out of bytes, wherever they were cut."""

from hypothesis import given
from hypothesis import strategies as st

from loadtests.sse import ServerEvent, SseParser

STREAM = (
    '\ufeff: a comment\r\ndata: {"a": 1}\r\n\r\nevent: error\rdata: é€\r\rdata: one\ndata:two\n\nid: 7\n\n'
    "data:  indented\n\ndata: never ended"
).encode()
EVENTS = [
    ServerEvent('{"a": 1}'),
    ServerEvent("é€", "error"),
    ServerEvent("one\ntwo"),
    ServerEvent(" indented"),
]


def test_whole() -> None:
    assert SseParser().feed(STREAM) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_cut_anywhere(cuts: list[int]) -> None:
    parser = SseParser()
    ends = [*sorted(cuts), len(STREAM)]
    found = []
    for begin, end in zip([0, *ends], ends, strict=False):
        found += parser.feed(STREAM[begin:end])
    assert found == EVENTS


def test_byte_by_byte() -> None:
    parser = SseParser()
    assert [event for byte in STREAM for event in parser.feed(bytes([byte]))] == EVENTS


def test_empty_data_is_no_event() -> None:
    assert SseParser().feed(b"data:\n\nevent: x\n\n") == []
