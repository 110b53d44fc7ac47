"""The story of listeners with TLS and SASL: the same few steps on each listener, and clients that
must be refused."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness import certificates, tokens
from harness.processes import Failure
from harness.servers import PLAIN_MODULE, SETTINGS, Kafka, Muster
from harness.story import Story

USER, PASSWORD = "alice", "secret"
SCRAMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORDS = ("PLAIN", *SCRAMS)
TOKEN = "OAUTHBEARER"
MECHANISMS = (*PASSWORDS, TOKEN)
SHARDS, PARTITIONS, RECORDS = 2, 2, 20
REFUSED_SECONDS = 15  # a client may retry before it reports a refusal
#: For each name of a listener, its protocol, and the distance of its port from the server's first
#: port.
LISTENERS = {
    "PLAINTEXT": ("PLAINTEXT", 0),
    "TLS": ("SSL", 2),
    "MUTUAL": ("SSL", 4),
    "PASSWORD": ("SASL_PLAINTEXT", 6),
    "BOTH": ("SASL_SSL", 8),
}
PORTS = 2 * len(LISTENERS)


@dataclass(frozen=True)
class SecuredCase:
    client: object
    directory: Path
    shards = SHARDS
    compression = "none"

    def __str__(self):
        return f"{self.client.name:<16} {self.shards} shards  {'TLS and SASL':<46}"


class Secured(Story):
    def run(self):
        self.control = self.start_control("control")
        self.files = self.server.files
        for name, listener, words in self.ways():
            self.is_let_in(name, listener, words)
        for name, listener, words, expected in self.refusals():
            self.is_refused(name, listener, words, expected)
        self.control.end()
        self.server.stop()

    def ways(self):
        """Each way that must succeed: its name, the listener, and the client's credentials."""
        yield "TLS", "TLS", self.trusting()
        yield "certificate", "MUTUAL", self.trusting() | self.identity()
        for mechanism in MECHANISMS:
            yield mechanism, "PASSWORD", self.by(mechanism)
            yield f"TLS-{mechanism}", "BOTH", self.trusting() | self.by(mechanism)

    def refusals(self):
        """Each way that must fail: its name, the listener, the client's credentials, and words of
        the client's error."""
        wrong, untrusted, anonymous, *wrong_token = self.case.client.refusals
        for mechanism in PASSWORDS:
            yield f"wrong-{mechanism}", "PASSWORD", self.by(mechanism, "other"), wrong
        yield "wrong-TLS", "BOTH", self.trusting() | self.by(SCRAMS[0], "other"), wrong
        for expected in wrong_token:
            yield "wrong-token", "PASSWORD", self.by(TOKEN, token="stranger.token"), expected
        yield "untrusted", "TLS", self.trusting("stranger.pem"), untrusted
        yield "no-certificate", "MUTUAL", self.trusting(), anonymous

    def is_let_in(self, name, listener, words):
        before = len(self.control.records)
        self.connect(name, listener, words)
        self.control.ask(f"create {PARTITIONS}", "created")
        self.control.ask(f"produce 0 {RECORDS}", "produced")
        self.control.ask(f"read {self.case.client.assignors[0]} {RECORDS}", "left")
        offsets = self.control.ask("committed", "offsets")["offsets"]
        if sum(offsets.values()) != RECORDS:
            raise Failure(f"{name}: the committed offsets are {offsets}")
        # The records were acknowledged, and read.
        seen = sorted(record[0] for record in self.control.records[before:])
        if seen != sorted([*range(RECORDS)] * 2):
            raise Failure(f"{name}: of the records came {seen}")
        self.note(f"{name}: let in")

    def is_refused(self, name, listener, words, expected):
        self.connect(name, listener, words)
        error = self.control.ask("be_refused", "refused", REFUSED_SECONDS)["error"]
        if expected not in error:
            raise Failure(f"{name}: the client's error is {error}, without {expected}")
        self.note(f"{name}: refused: {error.strip()}")

    def connect(self, name, listener, words):
        protocol, port = LISTENERS[listener]
        place = {
            "bootstrap": f"127.0.0.1:{self.server.port + port}",
            "topic": f"orders-{name}",
            "group": f"billing-{name}",
            "protocol": protocol,
        }
        said = " ".join(f"{key}={value}" for key, value in (place | words).items())
        self.control.ask(f"connect {said}", "connected")

    def trusting(self, authority="ca.pem"):
        return {"ca": self.files / authority}

    def identity(self):
        """The certificate and key of the client, in the forms that clients take: two files, and one
        file with both."""
        names = {"certificate": "client.crt", "key": "client.key", "identity": "client.pem"}
        return {word: self.files / name for word, name in names.items()}

    def by(self, mechanism, password=PASSWORD, token="token"):
        if mechanism == TOKEN:
            return {"mechanism": mechanism, "token": self.files / token}
        return {"mechanism": mechanism, "user": USER, "password": password}


class _SecuredServer:
    """Shared by both servers: keys and certificates, and the listeners."""

    ports_needed = PORTS

    @property
    def files(self):
        return self.directory / "files"

    def keys_url(self):
        return f"file://{self.files / 'jwks.json'}"

    def _place(self):
        certificates.make(self.files)
        tokens.make(self.files, USER)
        mapped = ",".join(f"{name}:{protocol}" for name, (protocol, _) in LISTENERS.items())
        bound = ",".join(
            f"{name}://127.0.0.1:{self.port + port}" for name, (_, port) in LISTENERS.items()
        )
        place = super()._place()
        place["advertised.listeners"] = bound
        place["listeners"] = f"{bound},{place['listeners'].split(',')[1]}"
        place["listener.security.protocol.map"] = f"{mapped},CONTROLLER:PLAINTEXT"
        return place | self._security()

    def _security(self):
        users = f'user_{USER}="{PASSWORD}"'
        keys = certificates.stores(self.files) | {
            "listener.name.mutual.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        }
        security = "org.apache.kafka.common.security"
        token_module = f"{security}.oauthbearer.OAuthBearerLoginModule required;"
        handler = f"{security}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        scram_module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        for listener in ("password", "both"):
            own = f"listener.name.{listener}"
            keys[f"{own}.plain.sasl.jaas.config"] = f"{PLAIN_MODULE} required {users};"
            for mechanism in SCRAMS:
                keys[f"{own}.{mechanism.lower()}.sasl.jaas.config"] = scram_module
            own += f".{TOKEN.lower()}.sasl"
            keys[f"{own}.jaas.config"] = token_module
            keys[f"{own}.server.callback.handler.class"] = handler
            keys[f"{own}.oauthbearer.jwks.endpoint.url"] = self.keys_url()
        return keys


class SecuredMuster(_SecuredServer, Muster):
    def __init__(self, binary, directory):
        super().__init__(binary, directory, SHARDS, SETTINGS)

    def start(self):
        """Starts the server once to create its data directory, then adds SCRAM users to the
        directory."""
        super().start()
        self.crash()  # the server may not handle SIGTERM yet
        for mechanism in SCRAMS:
            words = [self.binary, "user", self.data, "add", USER, "--mechanism", mechanism]
            words = [str(word) for word in words]
            done = subprocess.run(words, input=PASSWORD, capture_output=True, text=True)
            if done.returncode != 0:
                raise Failure(f"no user was added: {done.stdout}{done.stderr}")
        super().start()


class SecuredKafka(_SecuredServer, Kafka):
    def command(self):
        java, *words = super().command()
        return [java, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.keys_url()}", *words]

    def format_words(self):
        users = [f"{mechanism}=[name={USER},password={PASSWORD}]" for mechanism in SCRAMS]
        added = (word for user in users for word in ("--add-scram", user))
        return [*super().format_words(), *added]
