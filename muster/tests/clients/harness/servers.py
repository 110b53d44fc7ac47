"""Servers under test: muster, Apache Kafka, or one that already runs somewhere."""

import random
import signal
import socket
import subprocess
import threading
import time

from harness.processes import Failure, kill, spawn

START_SECONDS = 120
# Kafka's default duration of the locks of share groups. Each restart of a server adds 1 ms to it, so
# the lock of a record tells whether the server had been restarted when it gave the record.
LOCK_MS = 30_000
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
# Keys that keep a case short (no wait for members, and none for the session of a killed broker),
# and keys of a cluster with one broker. Groups without offsets stay, however long a run takes.
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    "group.consumer.min.session.timeout.ms=6000",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.heartbeat.interval.ms=500",
    "group.consumer.heartbeat.interval.ms=500",
    "group.share.min.session.timeout.ms=6000",
    "group.share.session.timeout.ms=6000",
    "group.share.min.heartbeat.interval.ms=500",
    "group.share.heartbeat.interval.ms=500",
    "group.share.min.record.lock.duration.ms=1000",
    "group.streams.min.session.timeout.ms=6000",
    "group.streams.session.timeout.ms=6000",
    "group.streams.min.heartbeat.interval.ms=500",
    "group.streams.heartbeat.interval.ms=500",
    "group.streams.initial.rebalance.delay.ms=0",
    "group.streams.num.standby.replicas=1",
    "broker.session.timeout.ms=2000",
    "broker.heartbeat.interval.ms=500",
    "offsets.topic.replication.factor=1",
    "offsets.topic.segment.bytes=16777216",
    "offsets.retention.check.interval.ms=86400000",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
)

_port_lock = threading.Lock()
_next_port = random.randrange(21_000, 29_000, 16)


def free_ports(count):
    """The first of `count` neighbouring ports that nothing listens on, below the ephemeral ones."""
    global _next_port
    with _port_lock:
        for _ in range(500):
            first = _next_port
            _next_port = first + 16 if first < 31_000 else 21_000
            if all(_is_free(port) for port in range(first, first + count)):
                return first
    raise Failure("no free ports")


def _is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


class Spawned:
    """A server that the harness starts with a `server.properties`, which is the same for muster and
    Kafka. Subclasses give the command line."""

    restartable = True
    data_place = "data"
    ports_needed = 2

    def __init__(self, directory, shards, settings):
        self.directory, self.shards = directory, shards
        self.port = free_ports(max(shards, self.ports_needed))
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.data = directory / self.data_place
        self.properties = directory / "server.properties"
        place = [f"{key}={value}" for key, value in self._place().items()]
        self.settings = [*place, *settings]
        self.properties.write_text("\n".join([*self.settings, ""]))
        self.log_path = directory / "server.log"
        self.process = None
        self.restarts = 0

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = spawn(self.command(), log, stdin=subprocess.DEVNULL, stdout=log)
        deadline = time.monotonic() + START_SECONDS
        for port in self.ports():
            while not _accepts(port):
                self._check()
                if time.monotonic() > deadline:
                    raise Failure(f"the server does not listen on port {port}")
                time.sleep(0.05)
        self._check()  # another process may listen on the ports

    def restarts_before(self, lock):
        """The number of restarts before the server gave a record with this duration of its lock, in
        ms. None if the lock does not have a default duration."""
        restarts = lock - LOCK_MS
        return restarts if 0 <= restarts <= self.restarts else None

    def crash(self):
        """kill -9. The kernel may keep the listeners of an io_uring open a moment longer than the
        process. This waits until they are closed: otherwise a client could take the dead server for
        the next one."""
        kill(self.process)
        deadline = time.monotonic() + START_SECONDS
        while any(_accepts(port) for port in self.ports()):
            if time.monotonic() > deadline:
                raise Failure("something still listens after kill -9")
            time.sleep(0.01)
        self.restarts += 1
        lock = f"group.share.record.lock.duration.ms={LOCK_MS + self.restarts}"
        self.properties.write_text("\n".join([*self.settings, lock, ""]))

    def _check(self):
        if self.process.poll() is not None:
            raise Failure(f"the server ended with status {self.process.returncode}")

    def _place(self):
        controller = f"127.0.0.1:{self.port + 1}"
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self.data,
        }

    def stop(self):
        """Stops the server cleanly. Fails if this takes too long."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            raise Failure("the server does not stop on SIGTERM") from None
        finally:
            kill(self.process)
        if status not in self.clean_statuses:
            raise Failure(f"the server stopped with status {status}")

    def discard(self):
        """Ends the server, whatever state it is in."""
        if self.process is not None:
            kill(self.process)


class Muster(Spawned):
    clean_statuses = (0,)

    def __init__(self, binary, directory, shards, settings=SETTINGS):
        super().__init__(directory, shards, settings)
        self.binary = binary

    def command(self):
        return [self.binary, "serve", "--config", self.properties, "--shards", self.shards]

    def ports(self):
        return range(self.port, self.port + self.shards)

    def files_of(self, topic):
        """The topic's segments in Kafka's format. The server must have stopped."""
        exported = self.directory / f"exported-{topic}"
        words = [self.binary, "log", "export", self.data, "--to", exported, "--topic", topic]
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failure(f"no export: {done.stdout}{done.stderr}")
        return segments(exported, topic)


class Kafka(Spawned):
    """Apache Kafka in one process, as broker and controller. A plug-in keeps the descriptions of
    topologies; muster keeps them without one."""

    clean_statuses = (0, 143)  # the JVM ends with 128 + SIGTERM

    def __init__(self, class_path, directory, settings=SETTINGS):
        plugin = "group.streams.topology.description.plugin.class=Topologies"
        super().__init__(directory, 1, (*settings, plugin))
        self.class_path = class_path

    def start(self):
        if not self.data.exists():
            self._format()
        super().start()

    def command(self):
        heap = ["-Xms512m", "-Xmx512m", "-XX:+UseG1GC"]
        return ["java", *heap, "-cp", self.class_path, "kafka.Kafka", self.properties]

    def ports(self):
        return [self.port]

    def files_of(self, topic):
        return segments(self.data, topic)

    def _format(self):
        words = [str(word) for word in self.format_words()]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failure(f"Kafka's storage was not formatted: {done.stdout}{done.stderr}")

    def format_words(self):
        words = ["java", "-cp", self.class_path, "kafka.tools.StorageTool", "format"]
        words += ["-t", "AAAAAAAAQACAAAAAAAAAAQ", "-c", self.properties]
        # The feature would make min.insync.replicas a dynamic default, which shows in every topic's
        # configs.
        return [*words, "--feature", "eligible.leader.replicas.version=0"]


class Running:
    """A server that the harness has not started. It can be crashed only if there is a command that
    crashes and restarts it."""

    log_path = None

    def __init__(self, bootstrap, restart_command):
        self.bootstrap, self.restart_command = bootstrap, restart_command
        self.restartable = restart_command is not None
        self.crashed = False

    def restarts_before(self, lock):
        """None: the restart command does not change the config of the server."""

    def start(self):
        """Runs the restart command after a crash. The server was already running before the first
        start."""
        if self.crashed:
            done = subprocess.run(self.restart_command, shell=True, timeout=120)
            if done.returncode != 0:
                raise Failure(f"the restart command ended with status {done.returncode}")

    def crash(self):
        """Only notes the crash: the restart command crashes and starts the server, in `start`."""
        self.crashed = True

    def stop(self):
        pass

    def discard(self):
        pass


def segments(directory, topic):
    """The segments of a topic that have records."""
    found = sorted(directory.glob(f"{topic}-*/*.log"))
    return [path for path in found if path.stat().st_size]


def _accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False
