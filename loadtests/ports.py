"""Ports of this machine."""

import random
import socket

BELOW_EPHEMERAL = range(20_000, 32_000)
"""Ports that the kernel gives to nobody's outgoing connection: one stays free from its choice to its use."""


def free_port() -> int:
    """A TCP port on loopback that nothing listens on now. Raises OSError."""
    for port in random.sample(BELOW_EPHEMERAL, 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("200 ports tried, none free")
