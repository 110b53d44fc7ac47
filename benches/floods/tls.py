"""Floods on a listener with TLS: handshakes, and records after them."""

import asyncio
import ssl

from . import frames
from .crowd import PAUSE_SECONDS, connected, crowd, send, senders
from .frames import metadata
from .plain import BUSY, MANY

#: The number of connections whose handshakes are done first. More would take all the time of a
#: flood.
SECURED = 300


def trusting(version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    """The settings of a client that does not look at the server's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if version:
        context.minimum_version = context.maximum_version = version
    return context


def hello(version: ssl.TLSVersion) -> bytes:
    """The first message of a client, which may be used again."""
    out = ssl.MemoryBIO()
    session = trusting(version).wrap_bio(ssl.MemoryBIO(), out)
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


async def connections(target, count):
    """connections that are reset at once, TLS"""

    async def client():
        async with connected(target.ssl):
            count()

    await crowd(BUSY, client)


async def held_handshakes(target, count):
    """4,500 handshakes that do not begin"""
    await senders(4_500, target.ssl, count)


async def half_hellos(target, count):
    """half of a hello, on 1,000 connections"""
    first = hello(ssl.TLSVersion.TLSv1_3)
    await senders(MANY, target.ssl, count, first[: len(first) // 2])


async def long_hellos(target, count):
    """48 KiB of a handshake that does not end, on 1,000 connections"""
    record = b"\x16\x03\x01\x40\x00" + b"\x01\x00\xff\xff" + bytes((16 << 10) - 4)
    more = b"\x16\x03\x01\x40\x00" + bytes(16 << 10)
    await senders(MANY, target.ssl, count, record + more + more[: 15 << 10])


async def abandoned_hellos(target, count):
    """hellos whose clients leave before the answer"""
    await _abandoned(target, count, reads=False)


async def answered_hellos(target, count):
    """hellos whose clients leave after the answer"""
    await _abandoned(target, count, reads=True)


async def abandoned_hellos_12(target, count):
    """hellos of TLS 1.2 whose clients leave after the answer"""
    await _abandoned(target, count, reads=True, version=ssl.TLSVersion.TLSv1_2)


async def _abandoned(target, count, reads, version=ssl.TLSVersion.TLSv1_3):
    first = hello(version)
    loop = asyncio.get_running_loop()

    async def client():
        async with connected(target.ssl) as opened:
            await send(opened, first)
            count()
            if reads:
                await loop.sock_recv(opened, 1 << 16)

    await crowd(BUSY, client)


async def garbage(target, count):
    """bytes that are not TLS"""
    await senders(BUSY, target.ssl, count, metadata())


async def handshakes(target, count):
    """whole handshakes"""
    context = trusting()

    async def client():
        async with secured(target.ssl, context):
            count()

    await crowd(BUSY, client)


async def foreign_certificates(target, count):
    """handshakes with a certificate of a foreign authority"""
    context = trusting()
    context.load_cert_chain(target.foreign)

    async def client():
        # With TLS 1.3 a client is notified of its refusal only after the handshake.
        async with secured(target.mutual, context) as (reader, _):
            count()
            await reader.read()

    await crowd(BUSY, client)


async def half_records(target, count):
    """half of a frame of 1 MiB with TLS, on 300 connections"""
    context = trusting()
    half = frames.start_of(frames.JOIN_GROUP, 3, frames.SHORT_BYTES)
    half += bytes(frames.SHORT_BYTES // 2)

    async def client():
        async with secured(target.ssl, context) as (reader, writer):
            writer.write(half)
            await writer.drain()
            count()
            await reader.read()

    await crowd(SECURED, client)


async def small_records(target, count):
    """requests in records of a byte, on 100 connections"""
    context = trusting()

    async def client():
        async with secured(target.ssl, context) as (reader, writer):
            while not reader.at_eof():
                for byte in metadata():
                    writer.write(bytes([byte]))
                await writer.drain()
                count()
                await asyncio.sleep(PAUSE_SECONDS)

    await crowd(100, client)


async def unread_answers(target, count):
    """answers with TLS that are not read, on 300 connections"""
    context = trusting()

    async def client():
        async with secured(target.ssl, context) as (_, writer):
            writer.transport.pause_reading()
            while True:
                writer.write(metadata() * 10)
                await writer.drain()
                count()
                await asyncio.sleep(PAUSE_SECONDS)

    await crowd(SECURED, client)


async def slow_readers(target, count):
    """answers with TLS of which 16 bytes are read at a time, on 300 connections"""
    context = trusting()

    async def client():
        async with secured(target.ssl, context, limit=16) as (reader, writer):
            writer.write(metadata() * 10)
            await writer.drain()
            while await reader.read(16):
                count()
                await asyncio.sleep(PAUSE_SECONDS)

    await crowd(SECURED, client)


class secured:
    """A connection with TLS that is reset at the end."""

    def __init__(self, port: int, context: ssl.SSLContext, limit: int = 1 << 16):
        self.port, self.context, self.limit = port, context, limit

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.context, limit=self.limit
        )
        return self.reader, self.writer

    async def __aexit__(self, *_):
        self.writer.transport.abort()


FLOODS = [
    connections,
    held_handshakes,
    half_hellos,
    long_hellos,
    abandoned_hellos,
    answered_hellos,
    abandoned_hellos_12,
    garbage,
    handshakes,
    foreign_certificates,
    half_records,
    small_records,
    unread_answers,
    slow_readers,
]
