"""Ports for servers of tests."""

import contextlib
import random
import socket


def free_port():
    """Not one of those that the system gives to clients: one of them might have it before the server does."""
    while True:
        with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
            port = random.randrange(10_000, 32_000)
            probe.bind(("", port))
            return port
