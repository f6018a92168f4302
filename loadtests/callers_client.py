"""The generator's end of the callers' process: a plan a line in, an outcome a line out. Runs under gevent."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gevent
from gevent import GreenletExit
from gevent.event import AsyncResult


class Callers:
    """One process that holds many calls on one asyncio loop."""

    def __init__(self, url: str, out: Path, reply_timeout_s: float) -> None:
        command = [sys.executable, "-m", "loadtests.callers", "--url", url, "--out", str(out)]
        self._process = subprocess.Popen(
            [*command, "--reply-timeout-s", str(reply_timeout_s)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._waiting: dict[int, AsyncResult] = {}
        self._left: list[dict[str, Any]] = []
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != b"ready":
            raise RuntimeError("the callers' process did not start")
        self._reader = gevent.spawn(self._read)

    def call(self, plan: dict[str, Any]) -> dict[str, Any]:
        """Hand a call over and wait until it has ended. Who is killed meanwhile leaves it to `close`."""
        result = self._waiting[plan["index"]] = AsyncResult()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(plan).encode() + b"\n")
        self._process.stdin.flush()
        try:
            ended: dict[str, Any] = result.get()
        except GreenletExit:
            del self._waiting[plan["index"]]
            raise
        return ended

    def close(self) -> list[dict[str, Any]]:
        """Hang up what is still open and end the process; recordings so far are saved. Returns the calls that nobody
        waited for any more."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout=5)
        return self._left

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            ended = json.loads(line)
            waiting = self._waiting.pop(ended["index"], None)
            if waiting is None:
                self._left.append(ended)
            else:
                waiting.set(ended)
        for waiting in self._waiting.values():
            waiting.set_exception(RuntimeError("the callers' process ended"))
