"""Requests, whole and in parts, in versions without compact fields."""

import struct

PRODUCE, FETCH, METADATA, JOIN_GROUP = 0, 1, 3, 11
SASL_HANDSHAKE, CREATE_TOPICS, SASL_AUTHENTICATE = 17, 19, 36

#: `socket.request.max.bytes`, `sasl.server.max.receive.size` and the longest JoinGroup.
PRODUCE_BYTES_MAX = 104_857_600
TOKEN_BYTES_MAX = 512 << 10
SHORT_BYTES = 1 << 20


def frame(api: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhi", api, version, 7) + string("hostile")
    return struct.pack(">i", len(head) + len(body)) + head + body


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def long_bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def array(*items: bytes) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def start_of(api: int, version: int, length: int) -> bytes:
    """The length of a frame, and the head of its request."""
    return struct.pack(">i", length) + frame(api, version, b"")[4:]


def metadata() -> bytes:
    """A Metadata request for all topics."""
    return frame(METADATA, 1, struct.pack(">i", -1))


def fetch(topic: str) -> bytes:
    partition = struct.pack(">iqi", 0, 0, 1 << 20)
    body = struct.pack(">iiiib", -1, 0, 0, 50 << 20, 0)
    return frame(FETCH, 4, body + array(string(topic) + array(partition)))


def create_topic(topic: str, partitions: int) -> bytes:
    one = string(topic) + struct.pack(">ih", partitions, 1) + array() + array()
    return frame(CREATE_TOPICS, 2, array(one) + struct.pack(">ib", 60_000, 0))


def handshake(mechanism: str) -> bytes:
    return frame(SASL_HANDSHAKE, 1, string(mechanism))


def authenticate(token: bytes) -> bytes:
    return frame(SASL_AUTHENTICATE, 1, long_bytes(token))


def token_of(answer: bytes) -> bytes:
    """The server's token in an answer to SaslAuthenticate; empty after a failure."""
    at = 4 + 2
    (words,) = struct.unpack_from(">h", answer, at)
    at += 2 + max(words, 0)
    (length,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + max(length, 0)]
