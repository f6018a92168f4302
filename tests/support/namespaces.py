"""Hosts of a network of their own: Linux network namespaces on one bridge, with nothing else on it. Needs root."""

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

CLONE_NEWNET = 0x40000000
ResultT = TypeVar("ResultT")


class Network:
    """A bridge, and the hosts on it: 10.77.NUMBER.1 and on."""

    def __init__(self, number: int = 0) -> None:
        self._number = number
        self._prefix = f"fc{os.getpid()}n{number}"
        self._bridge = f"{self._prefix}-bridge"
        self._hosts: list[str] = []
        _ip("netns", "add", self._bridge)
        _ip("-n", self._bridge, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._bridge, "link", "set", "bridge", "up")

    def host(self, name: str) -> "Host":
        """One more host."""
        namespace = f"{self._prefix}-{name}"
        _ip("netns", "add", namespace)
        self._hosts.append(namespace)
        _ip("-n", namespace, "link", "set", "lo", "up")
        host = Host(namespace, "")
        self.join(host)
        return host

    def join(self, host: "Host") -> str:
        """Connect a host (of another network) with this one too; returns its address here."""
        number = len(_members(self._bridge)) + 1
        address, device = f"10.77.{self._number}.{number}", f"net{self._number}"
        _ip("link", "add", device, "netns", host.namespace, "type", "veth",
            "peer", "name", f"port{number}", "netns", self._bridge)  # fmt: skip
        _ip("-n", self._bridge, "link", "set", f"port{number}", "master", "bridge", "up")
        _ip("-n", host.namespace, "addr", "add", f"{address}/24", "dev", device)
        _ip("-n", host.namespace, "link", "set", device, "up")
        host.address = host.address or address
        return address

    def remove(self) -> None:
        for namespace in self._hosts:
            Host(namespace, "").power_off()
            _ip("netns", "del", namespace)
        _ip("netns", "del", self._bridge)


class Host:
    """One host: its namespace and its first address."""

    def __init__(self, namespace: str, address: str) -> None:
        self.namespace, self.address = namespace, address

    def command(self, *words: str) -> list[str]:
        """The command that runs `words` there."""
        return ["ip", "netns", "exec", self.namespace, *words]

    def inside(self, work: Callable[[], ResultT]) -> ResultT:
        """Call `work` in a thread whose sockets are this host's."""
        with ThreadPoolExecutor(1, initializer=self._enter) as thread:
            return thread.submit(work).result()

    def processes(self) -> list[psutil.Process]:
        found = subprocess.run(["ip", "netns", "pids", self.namespace], capture_output=True, text=True, check=False)
        return [psutil.Process(int(pid)) for pid in found.stdout.split() if psutil.pid_exists(int(pid))]

    def power_off(self) -> None:
        """End all that runs there, at once and unasked."""
        for process in self.processes():
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue

    def _enter(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        with Path("/run/netns", self.namespace).open() as namespace:
            if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"setns {self.namespace}")


@contextmanager
def network(number: int = 0) -> Iterator[Network]:
    """A network that is gone afterwards. Skips where the machine gives none."""
    if shutil.which("ip") is None:
        pytest.skip("no ip: install Debian's package iproute2")
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    made = Network(number)
    try:
        yield made
    finally:
        made.remove()


def _members(bridge: str) -> list[str]:
    shown = subprocess.run(
        ["ip", "-n", bridge, "-o", "link", "show", "master", "bridge"], capture_output=True, text=True, check=True
    )
    return shown.stdout.splitlines()


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
