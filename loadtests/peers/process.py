"""The processes of a comparison: a peer that is served, and callers that call whoever it is."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loadtests.peers.load import PlannedCall
from loadtests.ports import free_port

ROOT = Path(__file__).parents[2]
READY_S = 180
STOP_S = 20


class ProcessError(RuntimeError):
    """A process of the comparison did not start, or died."""


@contextmanager
def peer(name: str, llm_url: str, config: Path, *options: str) -> Iterator[str]:
    """The base URL of loadtests.peers.NAME as a process, ready. Raises ProcessError."""
    port = free_port()
    command = [sys.executable, "-m", f"loadtests.peers.{name}", "--port", str(port), "--llm", llm_url]
    url = f"http://127.0.0.1:{port}"
    # A session of its own: Ctrl-C reaches this process alone, which ends the peer in its turn.
    process = subprocess.Popen([*command, "--config", str(config), *options], cwd=ROOT, start_new_session=True)
    try:
        deadline = time.monotonic() + READY_S
        while not _answers(f"{url}/healthz"):
            if process.poll() is not None:
                raise ProcessError(f"the peer {name} died (exit code {process.returncode}); its error stands above")
            if time.monotonic() > deadline:
                raise ProcessError(f"the peer {name} did not come up in {READY_S} s")
            time.sleep(0.3)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class CallersProcess:
    """A process of loadtests.callers; recordings go to `out`."""

    def __init__(self, url: str, out: Path, reply_timeout_s: float) -> None:
        command = [sys.executable, "-m", "loadtests.callers", "--url", url, "--out", str(out)]
        self._process = subprocess.Popen(
            [*command, "--reply-timeout-s", str(reply_timeout_s)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self._calls = 0
        self._read_line()

    def place(self, block: Sequence[PlannedCall], clips: list[Path]) -> list[dict[str, Any]]:
        """The calls of a block; returns what became of each, in order, when all have ended. Raises ProcessError."""
        assert self._process.stdin is not None
        begun, first = time.monotonic(), self._calls
        for number, call in sorted(enumerate(block, first), key=lambda pair: pair[1].after_s):
            time.sleep(max(0.0, begun + call.after_s - time.monotonic()))
            self._process.stdin.write(json.dumps(call.document(number, clips, begun)).encode() + b"\n")
            self._process.stdin.flush()
        self._calls += len(block)
        ended = [json.loads(self._read_line()) for _ in block]
        return sorted(ended, key=lambda call: int(call["index"]))

    def close(self) -> None:
        """Hang up what is still open and end the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _read_line(self) -> bytes:
        assert self._process.stdout is not None
        line: bytes = self._process.stdout.readline()
        if not line:
            raise ProcessError("the callers' process ended; its error stands above")
        return line


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True
