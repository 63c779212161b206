"""Receives a packet of the other keeper without blocking the event loop."""

import asyncio
import socket

from stoker_sidecar.linux import packets


async def receive_within(connection: socket.socket, seconds: float | None) -> tuple[packets.Packet, list[int]]:
    """Receive on the running event loop. ``seconds`` None waits forever.

    Raises TimeoutError, EOFError at the end of the connection, OSError and ValueError.
    """
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        async with asyncio.timeout(seconds):  # wait_for of Python 3.11 may lose a cancellation
            await readable.wait()
    finally:
        loop.remove_reader(connection)
    return packets.receive(connection)
