"""The clients: what each offers, how it is installed and how its adapter is started."""

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

ADAPTERS = Path(__file__).resolve().parent.parent / "adapters"
#: The plug-in that keeps descriptions of topologies in Kafka, which has none of its own.
TOPOLOGIES = ADAPTERS.parents[3] / "server/differential/plugin/Topologies.java"
ALL_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
#: The assignors of the server (KIP-848), by the names that adapters use.
SERVER_SIDE = ("consumer-uniform", "consumer-range")
# Stands between the names of the two assignors of a group that changes its protocol.
UPGRADE = "-to-"
SHARE_WAYS = ("implicit", "explicit")
SHARE_WAYS_WITH_LIMIT = ("implicit-record_limit", "explicit-record_limit")
FOUR_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


@dataclass(frozen=True)
class Client:
    name: str
    kind: str  # selects one of the installers below
    adapter: str
    assignors: tuple
    compressions: tuple = ALL_COMPRESSIONS
    # Whether its producer is idempotent by default, so that a retry does not write twice.
    idempotent: bool = False
    transactional: bool = False  # whether its adapter has the verb `transact`
    protocols: tuple = ()  # pairs (assignor, its name in the group), where they differ
    #: Words in the client's errors: a wrong password, an untrusted server, a missing certificate,
    #: and a wrong token if the client reports it.
    refusals: tuple = ()
    share_ways: tuple = ()  # options of its members in share groups (share.py)
    renews: bool = False  # whether its members can renew locks on acquired records

    def protocol(self, assignor, members):
        """The protocol or assignor that a description of the group names."""
        if assignor in SERVER_SIDE:
            # Without members that name an assignor, the server's default is used.
            return assignor.removeprefix("consumer-") if members else "uniform"
        if not members:
            return ""
        return dict(self.protocols).get(assignor, assignor)

    def command(self, cache):
        """The words that start this client's adapter, and the environment that it needs."""
        return LAUNCHERS[self.kind](cache, self.adapter)


def parts(assignor):
    """The assignor alone; for an upgrade, the assignor of the classic members and the assignor of
    the others."""
    return assignor.split(UPGRADE)


def protocols_of(assignor):
    return {"consumer" if part in SERVER_SIDE else "classic" for part in parts(assignor)}


JAVA = Client(
    "java",
    "java",
    "Client",
    FOUR_ASSIGNORS + ("default",) + SERVER_SIDE
    + ("default-to-consumer-uniform", "cooperative-sticky-to-consumer-range"),
    idempotent=True,
    transactional=True,
    protocols=(("default", "range"),),
    refusals=("SaslAuthenticationException", "SslAuthenticationException",
              "SslAuthenticationException", "SaslAuthenticationException"),
    share_ways=SHARE_WAYS + SHARE_WAYS_WITH_LIMIT,
    renews=True,
)
#: The previous version of the Java client. Its members continue while they are replaced by the
#: newest version.
OLDER_JAVA = replace(JAVA, name="java-4.3", kind="older-java")

CLIENTS = {
    client.name: client
    for client in (
        JAVA,
        OLDER_JAVA,
        Client("confluent-kafka", "python", "confluent_client.py",
               ("range", "roundrobin", "cooperative-sticky") + SERVER_SIDE
               + ("roundrobin-to-consumer-range",),
               transactional=True,
               refusals=("_AUTHENTICATION", "certificate verify failed", "alert", "_AUTHENTICATION"),
               share_ways=SHARE_WAYS),
        Client("kafka-python", "python", "kafka_python_client.py", FOUR_ASSIGNORS,
               idempotent=True, transactional=True,
               # This client loses the server's answer to a wrong password.
               refusals=("socket disconnected", "CERTIFICATE_VERIFY_FAILED",
                         "_CERTIFICATE", "socket disconnected")),
        Client("aiokafka", "python", "aiokafka_client.py", ("range", "roundrobin", "sticky"),
               transactional=True,
               refusals=("SaslAuthenticationFailed", "CERTIFICATE_VERIFY_FAILED",
                         "Unable to bootstrap")),
        Client(
            "kafkajs",
            "node",
            "kafkajs_client.js",
            ("roundrobin",),
            ("gzip", "snappy", "none"),
            transactional=True,
            protocols=(("roundrobin", "RoundRobinAssigner"),),
            refusals=("KafkaJSSASLAuthenticationError", "unable to verify the first certificate",
                      "alert"),
        ),
        Client(
            "platformatic",
            "newer-node",
            "platformatic_client.js",
            ("roundrobin",) + SERVER_SIDE,
            refusals=("SASL authentication failed", "unable to verify the first certificate",
                      "failed"),
        ),
        Client("franz-go", "go", "franz",
               FOUR_ASSIGNORS + SERVER_SIDE + ("cooperative-sticky-to-consumer-uniform",),
               idempotent=True, transactional=True,
               refusals=("SASL_AUTHENTICATION_FAILED", "signed by unknown authority",
                         "certificate", "unexpected data in oauth response"),
               share_ways=SHARE_WAYS + SHARE_WAYS_WITH_LIMIT, renews=True),
    )
}


def streams_command(cache, client, **properties):
    """Like `Client.command`, for the program of Kafka Streams beside the adapter of a Java
    client."""
    (java, *words), environment = LAUNCHERS[client.kind](cache, "Counting")
    return [java, *(f"-D{name}={value}" for name, value in properties.items()), *words], environment


def install(names, cache):
    """Installs everything that the named clients need to the cache, unless it is there already."""
    for kind in dict.fromkeys(CLIENTS[name].kind for name in names):
        INSTALLERS[kind](cache)


def install_python(cache):
    pins = ADAPTERS / "requirements.txt"
    with renewed(cache / "python", [pins]) as (target, needed):
        if needed:
            run(sys.executable, "-m", "venv", target)
            run(target / "bin/python", "-m", "pip", "install", "-q", "-r", pins)


def install_node(cache):
    pins = ADAPTERS / "package.json"
    with renewed(cache / "node", [pins]) as (target, needed):
        if needed:
            shutil.copy(pins, target)
            quiet = ("--silent", "--no-package-lock", "--no-audit", "--no-fund")
            run("npm", "install", "--ignore-scripts", *quiet, cwd=target)


def install_go(cache):
    source = ADAPTERS / "franz"
    with renewed(cache / "go", sorted(source.iterdir())) as (target, needed):
        if needed:
            run("go", "build", "-o", target / "franz", ".", cwd=source)


def install_java(cache):
    source = ADAPTERS / "java"
    of_tools = sorted(source.glob("tools/*.java"))  # only for the newest version of the client
    _install_java(cache / "java", [*sorted(source.glob("*.java")), *of_tools])


def install_older_java(cache):
    _install_java(cache / "older-java", sorted((ADAPTERS / "java").glob("*.java")), "-P", "older")


def _install_java(place, programs, *profile):
    pom = ADAPTERS / "java/pom.xml"
    with renewed(place, [pom, *programs]) as (target, needed):
        if needed:
            maven_jars(pom, target, *profile)
            run("javac", "-cp", f"{target}/*", "-d", target, *programs)


def maven_jars(pom, target, *profile):
    """Copies the dependencies of a pom to the target directory."""
    goal = ("dependency:copy-dependencies", f"-DoutputDirectory={target}")
    run("mvn", "-q", "-B", "-Dstyle.color=never", "-f", pom, *profile, *goal)


def install_kafka(cache):
    """Installs Apache Kafka and its tools to the cache. Returns their class path."""
    pom = Path(__file__).with_name("kafka-pom.xml")
    with renewed(cache / "kafka", [pom, TOPOLOGIES]) as (target, needed):
        if needed:
            maven_jars(pom, target)
            # Keep only one logger: the silent one.
            for jar in [*target.glob("log4j-slf4j*-impl-*.jar"), *target.glob("slf4j-reload4j-*")]:
                jar.unlink()
            run("javac", "-cp", f"{target}/*", "-d", target, TOPOLOGIES)
    return _class_path(target)


def _class_path(target):
    """The classes in a directory of the cache, and its jars."""
    return f"{target}{os.pathsep}{target}/*"


def install_kcat():
    """Installs kcat from Debian's package, unless the program is there already."""
    if shutil.which("kcat") is None:
        run("apt-get", "update", "-q")
        run("apt-get", "install", "-y", "-q", "kcat")


class renewed:
    """A directory of the cache. It is made again when one of the files that define it has
    changed."""

    def __init__(self, target, inputs):
        digest = hashlib.sha256()
        for path in inputs:
            digest.update(path.read_bytes())
        self.target, self.digest = target, digest.hexdigest()
        self.stamp = target / ".complete"

    def __enter__(self):
        complete = self.stamp.exists() and self.stamp.read_text() == self.digest
        if not complete:
            shutil.rmtree(self.target, ignore_errors=True)
            self.target.mkdir(parents=True)
        return self.target, not complete

    def __exit__(self, kind, *_):
        if kind is None:
            self.stamp.write_text(self.digest)


def run(*words, cwd=None):
    done = subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-4000:]
        raise SystemExit(f"cannot install: {' '.join(map(str, words))}\n{said}")


def _launch_python(cache, adapter):
    words = [cache / "python/bin/python", "-B", ADAPTERS / adapter]
    return words, {}


def _launch_node(cache, adapter):
    environment = {
        "NODE_PATH": str(cache / "node/node_modules"),
        "KAFKAJS_NO_PARTITIONER_WARNING": "1",
    }
    return ["node", ADAPTERS / adapter], environment


def _launch_newer_node(cache, adapter):
    """Runs a client that needs a newer Node than many machines have, with a Node from npm."""
    words, environment = _launch_node(cache, adapter)
    (node,) = (cache / "node/node_modules").glob("node-linux-*/bin/node")
    return [node, *words[1:]], environment


def _launch_go(cache, adapter):
    return [cache / "go" / adapter], {}


def _launch_java(cache, adapter, place="java"):
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]
    return ["java", *quick, "-cp", _class_path(cache / place), adapter], {}


def _launch_older_java(cache, adapter):
    return _launch_java(cache, adapter, "older-java")


INSTALLERS = {
    "python": install_python,
    "node": install_node,
    "newer-node": install_node,
    "go": install_go,
    "java": install_java,
    "older-java": install_older_java,
}
LAUNCHERS = {
    "python": _launch_python,
    "node": _launch_node,
    "newer-node": _launch_newer_node,
    "go": _launch_go,
    "java": _launch_java,
    "older-java": _launch_older_java,
}
