"""Server-sent events out of a byte stream, wherever it was cut: between events, inside a line, inside a character."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerEvent:
    """One event: `name` is 'message' unless the server named it."""

    data: str
    name: str = "message"


class SseParser:
    """Feed bytes as they arrive; get the events that they complete (WHATWG HTML, 9.2.6)."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._after_return = False
        self._data: list[str] = []
        self._name = ""
        self._first = True

    def feed(self, data: bytes) -> list[ServerEvent]:
        """The events that end within `data`."""
        events = []
        for line in self._lines(data):
            event = self._take(line)
            if event is not None:
                events.append(event)
        return events

    def _lines(self, data: bytes) -> list[str]:
        """A line ends with CR, LF or CRLF; a CRLF may be cut in two."""
        lines = []
        for piece in data.splitlines(keepends=True) if data else []:
            if self._after_return and piece == b"\n" and not self._line:
                self._after_return = False
                continue
            self._after_return = piece.endswith(b"\r")
            self._line += piece
            if piece.endswith((b"\n", b"\r")):
                lines.append(bytes(self._line.rstrip(b"\r\n")).decode("utf-8", errors="replace"))
                self._line.clear()
        return lines

    def _take(self, line: str) -> ServerEvent | None:
        if self._first:
            self._first = False
            line = line.removeprefix("\ufeff")
        if not line:
            data = "\n".join(self._data)
            event = ServerEvent(data, self._name or "message") if data else None
            self._data, self._name = [], ""
            return event
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        return None
