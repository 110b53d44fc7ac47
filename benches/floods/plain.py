"""Floods on a listener without TLS and without a password."""

import asyncio
import dataclasses
import itertools
import socket

from . import frames
from .crowd import PAUSE_SECONDS, connected, crowd, send, senders, until_closed

#: The number of connections of floods that do not wait, and of floods that hold resources.
BUSY, MANY = 32, 1_000
PIECE = bytes(64 << 10)


async def elsewhere(target, count):
    """half of a frame of 1 MiB, on 1,000 connections, to a server of their own"""
    with socket.create_server(("127.0.0.1", 0), backlog=4 * MANY) as own:
        await half_frames(dataclasses.replace(target, plaintext=own.getsockname()[1]), count)


async def connections(target, count):
    """connections that are reset at once"""

    async def client():
        async with connected(target.plaintext):
            count()

    await crowd(BUSY, client)


async def held_connections(target, count):
    """4,000 connections that send nothing"""
    await senders(4 * MANY, target.plaintext, count)


async def half_frames(target, count):
    """half of a frame of 1 MiB, on 1,000 connections"""
    head = frames.start_of(frames.JOIN_GROUP, 3, frames.SHORT_BYTES)
    await senders(MANY, target.plaintext, count, head, bytes(frames.SHORT_BYTES // 2))


async def trickles(target, count):
    """frames that come byte by byte, on 1,000 connections"""

    async def client():
        async with connected(target.plaintext) as opened:
            for byte in itertools.chain(frames.start_of(frames.JOIN_GROUP, 3, 1_000), bytes(1_000)):
                await send(opened, bytes([byte]))
                count()
                await asyncio.sleep(PAUSE_SECONDS)

    await crowd(MANY, client)


async def short_frames(target, count):
    """whole frames of 1 MiB, on 1,000 connections"""
    await _whole_frames(target, count, frames.JOIN_GROUP, 3, frames.SHORT_BYTES)


async def long_frames(target, count):
    """whole frames of 100 MiB, on 1,000 connections"""
    await _whole_frames(target, count, frames.PRODUCE, 3, frames.PRODUCE_BYTES_MAX)


async def _whole_frames(target, count, api, version, length):
    async def client():
        async with connected(target.plaintext) as opened:
            head = frames.start_of(api, version, length)
            await send(opened, head)
            left = length + 4 - len(head)
            while left:
                piece = PIECE[:left]
                await send(opened, piece)
                left -= len(piece)
            count()
            await until_closed(opened)

    await crowd(MANY, client)


async def too_long_frames(target, count):
    """frames of 2 GiB"""
    await senders(BUSY, target.plaintext, count, frames.start_of(frames.PRODUCE, 3, 2**31 - 1))


async def unread_answers(target, count):
    """answers that are not read, on 1,000 connections"""
    many = frames.metadata() * 10 + frames.fetch(target.topic) * 10

    async def client():
        async with connected(target.plaintext) as opened:
            while True:
                await send(opened, many)
                count()

    await crowd(MANY, client)


async def slow_readers(target, count):
    """answers that are read byte by byte, on 1,000 connections"""
    loop = asyncio.get_running_loop()

    async def client():
        async with connected(target.plaintext) as opened:
            await send(opened, frames.metadata() * 10)
            while await loop.sock_recv(opened, 1):
                count()
                await asyncio.sleep(PAUSE_SECONDS)

    await crowd(MANY, client)


FLOODS = [
    connections,
    held_connections,
    half_frames,
    trickles,
    short_frames,
    long_frames,
    too_long_frames,
    unread_answers,
    slow_readers,
]
