"""A crowd of clients in a process of its own, and the building blocks of such clients."""

import asyncio
import contextlib
import dataclasses
import multiprocessing
import os
import resource
import socket
import struct
from collections.abc import Awaitable, Callable

#: With this option a close is a reset, which leaves no port reserved for a minute.
NO_LINGER = struct.pack("ii", 1, 0)
PAUSE_SECONDS = 0.05


@dataclasses.dataclass(frozen=True)
class Target:
    """The ports of the listeners, by protocol, and all else that a client may know."""

    plaintext: int
    ssl: int
    sasl_plaintext: int
    sasl_ssl: int
    #: The port of a TLS listener that asks for a certificate of the client.
    mutual: int
    topic: str
    user: str
    #: A file with a token that another key has signed.
    token: str
    #: A file with a key, and a certificate that no listener accepts.
    foreign: str


#: An attack. It gets the target, and a function to call after each action: a connection, a
#: handshake, a login.
Flood = Callable[[Target, Callable[[], None]], Awaitable[None]]


def begin(flood: Flood, target: Target, core: int, priority: int):
    """Starts a flood in a process on a core. Returns the process and a counter of its actions."""
    done = multiprocessing.Value("Q", 0, lock=False)
    process = multiprocessing.Process(target=_run, args=(flood, target, core, priority, done), daemon=True)
    process.start()
    return process, done


def _run(flood: Flood, target: Target, core: int, priority: int, done) -> None:
    os.sched_setaffinity(0, {core})
    os.nice(priority)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def count() -> None:
        done.value += 1

    asyncio.run(flood(target, count))


async def crowd(clients: int, client: Callable[[], Awaitable[None]]) -> None:
    """Runs clients that start over whenever the server or their own plan has ended the connection."""

    async def again() -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await client()
            await asyncio.sleep(0)

    await asyncio.gather(*(again() for _ in range(clients)))


async def senders(clients: int, port: int, count: Callable[[], None], *pieces: bytes) -> None:
    """A crowd of clients that each send something, and wait until the server closes."""

    async def client() -> None:
        async with connected(port) as opened:
            for piece in pieces:
                await send(opened, piece)
            count()
            await until_closed(opened)

    await crowd(clients, client)


@contextlib.asynccontextmanager
async def connected(port: int):
    """A socket that is reset at the end."""
    with socket.socket() as opened:
        opened.setblocking(False)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", port))
        yield opened


async def send(opened: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(opened, data)


async def receive(opened: socket.socket) -> bytes:
    """The next answer, without its length."""
    (length,) = struct.unpack(">i", await _exactly(opened, 4))
    return await _exactly(opened, length)


async def until_closed(opened: socket.socket) -> None:
    """Reads and discards."""
    while await asyncio.get_running_loop().sock_recv(opened, 1 << 16):
        pass


async def _exactly(opened: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = await asyncio.get_running_loop().sock_recv(opened, length - len(data))
        if not more:
            raise ConnectionError("the server closed the connection")
        data += more
    return data
