"""The parts of Kafka's protocol that benchmarks need, in versions without compact fields."""

import socket
import struct

PATIENCE_SECONDS = 300


class Connection:
    """A client's connection. `host` is the client's own address."""

    def __init__(self, port: int, host: str = "127.0.0.1"):
        self.socket = socket.create_connection(("127.0.0.1", port), 5, source_address=(host, 0))
        self.socket.settimeout(PATIENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray(1 << 20)

    def send(self, api: int, version: int, body: bytes) -> None:
        head = struct.pack(">hhi", api, version, 7) + string("bench")
        self.socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)

    def receive(self) -> memoryview:
        """The next answer, without its correlation id; valid until the next call."""
        (length,) = struct.unpack(">i", self.exactly(4))
        return self.exactly(length)[4:]

    def ask(self, api: int, version: int, body: bytes) -> memoryview:
        self.send(api, version, body)
        return self.receive()

    def exactly(self, length: int) -> memoryview:
        if len(self.buffer) < length:
            self.buffer = bytearray(length)
        view, at = memoryview(self.buffer)[:length], 0
        while at < length:
            read = self.socket.recv_into(view[at:])
            if read == 0:
                raise ConnectionError("the server closed the connection")
            at += read
        return view


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
