"""Floods on listeners that ask for a password: states out of order, and logins that fail."""

import base64
import itertools
import random

from . import frames
from .crowd import connected, crowd, receive, send, senders, until_closed
from .plain import BUSY, MANY
from .tls import secured, trusting

WRONG = b"\0alice\0wrong"


def out_of_order(user: str) -> list[list[bytes]]:
    """Frames of which none, or only the first ones, are expected."""
    plain, scram = frames.handshake("PLAIN"), frames.handshake("SCRAM-SHA-256")
    first = frames.authenticate(scram_first(user))
    return [
        [frames.authenticate(WRONG)],
        [frames.metadata()],
        [plain, plain, plain],
        [plain, frames.metadata()],
        [frames.handshake("GSSAPI"), plain],
        [scram, frames.authenticate(b"")],
        [scram, first, first],
        [scram, first, frames.metadata()],
        [scram, first, frames.handshake("PLAIN")],
        [scram, frames.authenticate(b"c=biws,r=nonce,p=AAAA")],
        [plain, frames.authenticate(b"\0" * 1_000)],
        [frames.long_bytes(WRONG), plain],
        [frames.frame(frames.SASL_HANDSHAKE, 0, frames.string("PLAIN")), frames.long_bytes(WRONG)],
        [bytes(64)],
    ]


def scram_first(user: str) -> bytes:
    return f"n,,n={user},r={random.getrandbits(64):x}".encode()


async def states_out_of_order(target, count):
    """states of SASL out of order"""
    ways = itertools.cycle(out_of_order(target.user))

    async def client():
        async with connected(target.sasl_plaintext) as opened:
            for each in next(ways):
                await send(opened, each)
            count()
            await until_closed(opened)

    await crowd(256, client)


async def held_logins(target, count):
    """4,500 clients that do not log in"""
    await senders(4_500, target.sasl_plaintext, count, frames.handshake("PLAIN"))


async def half_tokens(target, count):
    """half of a token of 512 KiB, on 1,000 connections"""
    head = frames.start_of(frames.SASL_AUTHENTICATE, 1, frames.TOKEN_BYTES_MAX)
    half = head + bytes(frames.TOKEN_BYTES_MAX // 2)
    await senders(MANY, target.sasl_plaintext, count, frames.handshake("PLAIN"), half)


async def long_tokens(target, count):
    """tokens of 512 KiB, on 1,000 connections"""
    head = len(frames.authenticate(b"")) - 4
    token = frames.authenticate(bytes(frames.TOKEN_BYTES_MAX - head))
    await senders(MANY, target.sasl_plaintext, count, frames.handshake("PLAIN") + token)


async def wrong_passwords(target, count):
    """wrong passwords of PLAIN"""
    login = frames.handshake("PLAIN") + frames.authenticate(WRONG)
    await senders(MANY, target.sasl_plaintext, count, login)


async def wrong_tokens(target, count):
    """tokens of OAUTHBEARER that another key has signed"""
    with open(target.token) as token:
        message = f"n,,\1auth=Bearer {token.read()}\1\1".encode()
    login = frames.handshake("OAUTHBEARER") + frames.authenticate(message)
    await senders(MANY, target.sasl_plaintext, count, login)


async def unknown_users(target, count):
    """logins by SCRAM of users that do not exist"""
    await _scram(target, count, lambda: f"nobody{random.getrandbits(32):x}")


async def wrong_proofs(target, count):
    """logins by SCRAM with a wrong proof"""
    await _scram(target, count, lambda: target.user)


async def _scram(target, count, name):
    proof = base64.b64encode(bytes(32))

    async def client():
        async with connected(target.sasl_plaintext) as opened:
            await send(opened, frames.handshake("SCRAM-SHA-256"))
            await receive(opened)
            await send(opened, frames.authenticate(scram_first(name())))
            first = frames.token_of(await receive(opened))
            if first:
                nonce = first.split(b",")[0]
                await send(opened, frames.authenticate(b"c=biws," + nonce + b",p=" + proof))
            count()
            await until_closed(opened)

    await crowd(MANY, client)


async def wrong_passwords_with_tls(target, count):
    """wrong passwords of PLAIN, with TLS"""
    context = trusting()

    async def client():
        async with secured(target.sasl_ssl, context) as (reader, writer):
            writer.write(frames.handshake("PLAIN") + frames.authenticate(WRONG))
            count()
            await reader.read()

    await crowd(BUSY, client)


FLOODS = [
    states_out_of_order,
    held_logins,
    half_tokens,
    long_tokens,
    wrong_passwords,
    wrong_tokens,
    unknown_users,
    wrong_proofs,
    wrong_passwords_with_tls,
]
