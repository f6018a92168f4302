"""The journal: torn, doubled and foreign lines, a full disk."""

import os
from pathlib import Path

import pytest

from batch.assembly import CANCELLED, assemble, error_id, output_id
from batch.files import Contents
from batch.journal import Entry, Finished, Segment
from batch.source import Source


def entry(row: int, text: str = "{}") -> Entry:
    return Entry(row, "O", 3, 1, 2, text.encode())


def test_what_is_appended_is_finished_and_counted_once(contents: Contents) -> None:
    folder = contents.work("batch_1")
    one, other = Segment(contents, folder), Segment(contents, folder)
    one.append(entry(0), entry(1))
    finished = Finished(contents, folder, 5)
    finished.refresh()
    assert finished.rows.nonzero()[0].tolist() == [0, 1]
    other.append(entry(1), entry(4))
    finished.refresh()
    assert (finished.completed, finished.prompt_tokens, finished.output_tokens) == (3, 9, 6)


def test_a_torn_last_line_is_no_row_and_hides_none(contents: Contents) -> None:
    folder = contents.work("batch_1")
    segment = Segment(contents, folder)
    segment.append(entry(0))
    segment.close()
    with Path(segment.path).open("ab") as file:
        file.write(entry(1).encode()[:-4])
    Segment(contents, folder).append(entry(2))
    finished = Finished(contents, folder, 5)
    finished.refresh()
    assert finished.rows.nonzero()[0].tolist() == [0, 2]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_said_and_the_next_segment_is_another(
    contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = contents.work("batch_1")
    segment = Segment(contents, folder)
    segment.append(entry(0))
    full, good = os.open("/dev/full", os.O_WRONLY), segment._file
    segment._file = full
    with pytest.raises(OSError, match="No space"):
        segment.append(entry(1))
    assert good is not None
    os.close(good)
    segment.append(entry(2))
    finished = Finished(contents, folder, 5)
    finished.refresh()
    assert finished.rows.nonzero()[0].tolist() == [0, 2]


def test_each_row_is_in_one_file_and_making_them_again_changes_nothing(contents: Contents) -> None:
    line = b'{"custom_id": "%d", "method": "POST", "url": "/v1/completions", "body": {"model": "m"}}\n'
    with contents.create("file-in") as file:
        file.write(b"".join(line % number for number in range(4)))
    source = Source(lambda: contents.open("file-in"), "/v1/completions", 10, 65_536)
    segment = Segment(contents, contents.work("batch_1"))
    segment.append(entry(1, '{"custom_id": "1"}'), Entry(3, "E", 0, 0, 0, b'{"custom_id": "3"}'))
    for _ in range(2):
        finished = assemble(contents, "batch_1", source, 4, CANCELLED)
        assert (finished.completed, finished.failed) == (1, 3)
        output = b"".join(contents.chunks(output_id("batch_1")))
        error = b"".join(contents.chunks(error_id("batch_1")))
        assert output == b'{"custom_id": "1"}\n'
        assert error.count(b"\n") == 3 and error.count(b"batch_cancelled") == 2


def test_a_remote_filesystem_gets_whole_segments(contents: Contents) -> None:
    remote = Contents("memory://batch-test")
    segment = Segment(remote, remote.work("batch_1"))
    segment.append(entry(0))
    segment.append(entry(1))
    finished = Finished(remote, remote.work("batch_1"), 5)
    finished.refresh()
    assert finished.completed == 0
    segment.close()
    finished.refresh()
    assert finished.completed == 2
