"""The servers that are measured: how each is built, started on one core, warmed up and ended."""

import contextlib
import dataclasses
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent.parent
SERVER_CORE = 0
CLIENT_CORE = 1
RAM = pathlib.Path("/dev/shm")
START_SECONDS_MAX = 120
STOP_SECONDS_MAX = 60

KAFKA_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{port2}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port2}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={dir}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
message.max.bytes=16777216
log.segment.delete.delay.ms=1000
"""
#: Properties of the groups, for muster and Kafka alike.
GROUP_PROPERTIES = """\
group.initial.rebalance.delay.ms=0
group.consumer.assignment.interval.ms=0
group.consumer.heartbeat.interval.ms=500
group.consumer.min.heartbeat.interval.ms=100
group.consumer.session.timeout.ms=10000
group.consumer.min.session.timeout.ms=6000
group.streams.initial.rebalance.delay.ms=0
group.streams.assignment.interval.ms=0
group.streams.heartbeat.interval.ms=500
group.streams.min.heartbeat.interval.ms=100
group.streams.session.timeout.ms=10000
group.streams.min.session.timeout.ms=6000
group.share.heartbeat.interval.ms=1000
group.share.min.heartbeat.interval.ms=500
group.share.max.size=1000
"""
#: A listener with TLS, whose certificate is made for the run.
TLS_PROPERTIES = """\
listeners=SSL://127.0.0.1:{port}
ssl.keystore.type=PEM
ssl.keystore.location={tls}/server.pem
ssl.enabled.protocols=TLSv1.3
"""
#: The options of muster-load for this listener.
TLS_CLIENT = " --tls --tls-ca {tls}/certificate.pem"
ASSIGNS_EVERY_SECOND = "group.consumer.assignment.interval.ms=1000"


@dataclasses.dataclass(frozen=True)
class Server:
    """Commands are templates with names such as {bin}, {jars}, {dir} and {port}, so that results
    name no path of the machine."""

    name: str
    title: str
    command: str
    build: str = ""
    before: str = ""
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    #: Whether the server compiles while it runs, so that it needs a longer warm-up.
    compiles_late: bool = False
    #: Whether the data are in RAM, where a flush costs nothing.
    in_ram: bool = False
    #: Options of muster-load.
    client: str = ""
    #: Whether the server only sends frames back.
    is_echo: bool = False

    def with_property(self, line: str) -> dict[str, str]:
        """The server's files, with one more line in its properties. The line overrides the
        others."""
        properties = self.files["server.properties"]
        return self.files | {"server.properties": f"{properties}{line}\n"}


MUSTER = Server(
    name="muster",
    title="muster",
    build="cargo build --release -p muster",
    command="{bin}/muster serve --listen 127.0.0.1:{port} --data {dir}/data --shards 1 "
    + " ".join(GROUP_PROPERTIES.split()),
)
MUSTER_POLL = dataclasses.replace(
    MUSTER, name="muster-poll", title="muster, polling", command=f"{MUSTER.command} io.driver=poll"
)
#: A build of muster from before a change, given by `--earlier`. It shows the cost of the change.
EARLIER = dataclasses.replace(
    MUSTER,
    name="earlier",
    title="muster, earlier",
    build="",
    command=MUSTER.command.replace("{bin}/muster", "{earlier}"),
)
KAFKA = Server(
    name="kafka",
    title="Kafka",
    before="java -cp {jars}/* kafka.tools.StorageTool format -t 4L6g3nShT-eMCtK--X86sw"
    " -c {dir}/server.properties",
    command="java -Xms1g -Xmx1g -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -cp {jars}/*"
    " kafka.Kafka {dir}/server.properties",
    files={"server.properties": KAFKA_PROPERTIES + GROUP_PROPERTIES},
    compiles_late=True,
)
MUSTER_TLS = dataclasses.replace(
    MUSTER,
    name="muster-tls",
    title="muster, TLS",
    command=MUSTER.command.replace(
        "--listen 127.0.0.1:{port}", " ".join(TLS_PROPERTIES.split())
    ),
    client=TLS_CLIENT,
)
KAFKA_TLS = dataclasses.replace(
    KAFKA,
    name="kafka-tls",
    title="Kafka, TLS",
    files={
        "server.properties": KAFKA.files["server.properties"]
        .replace("PLAINTEXT://127.0.0.1:{port}", "SSL://127.0.0.1:{port}")
        .replace("inter.broker.listener.name=PLAINTEXT", "inter.broker.listener.name=SSL")
        + TLS_PROPERTIES.partition("\n")[2]
        + "ssl.truststore.type=PEM\nssl.truststore.location={tls}/certificate.pem\n"
        + "listener.security.protocol.map=SSL:SSL,CONTROLLER:PLAINTEXT\n"
    },
    client=TLS_CLIENT,
)
ECHO = Server(
    name="echo",
    title="echo",
    build="cargo build --release -p muster-uring --example echo",
    command="{bin}/examples/echo --listen 127.0.0.1:{port}",
    is_echo=True,
)
SERVERS = [
    MUSTER,
    EARLIER,
    dataclasses.replace(MUSTER, name="muster-ram", title="muster in RAM", in_ram=True),
    KAFKA,
    MUSTER_TLS,
    KAFKA_TLS,
    dataclasses.replace(
        KAFKA,
        name="kafka-flushed",
        title="Kafka, flushed",
        files=KAFKA.with_property("log.flush.interval.messages=1"),
    ),
    MUSTER_POLL,
    dataclasses.replace(
        MUSTER,
        name="muster-1s",
        title="muster, 1s",
        command=f"{MUSTER.command} {ASSIGNS_EVERY_SECOND}",
    ),
    dataclasses.replace(
        KAFKA,
        name="kafka-1s",
        title="Kafka, 1s",
        files=KAFKA.with_property(ASSIGNS_EVERY_SECOND),
    ),
    ECHO,
    dataclasses.replace(
        ECHO,
        name="durable-echo",
        title="durable echo",
        command=ECHO.command + " --durable {dir}/log",
    ),
]


@dataclasses.dataclass
class Running:
    pid: int
    port: int


@contextlib.contextmanager
def running(server: Server, base: pathlib.Path, places: dict[str, str]):
    """The server on its core, with a directory of its own under `base`, until the block ends."""
    place = RAM if server.in_ram else base
    directory = pathlib.Path(tempfile.mkdtemp(prefix=f"{server.name}-", dir=place))
    port, port2 = free_ports(2)
    values = {**places, "dir": str(directory), "port": port, "port2": port2}
    try:
        for name, text in server.files.items():
            (directory / name).write_text(text.format(**values))
        with open(directory / "out.log", "w") as log:
            if server.before:
                subprocess.run(words(server.before, values), stdout=log, stderr=log, check=True)
            pin = ["taskset", "-c", str(SERVER_CORE)]
            process = subprocess.Popen(
                pin + words(server.command, values), stdout=log, stderr=log, cwd=directory
            )
        try:
            wait_until_serving(server, process, port)
            yield Running(process.pid, port)
            if process.poll() is not None:
                raise SystemExit(f"{server.name} ended with status {process.returncode}")
        except BaseException:
            show_end_of(directory / "out.log")
            raise
        finally:
            stop(process)
    finally:
        shutil.rmtree(directory)


def words(template: str, values: dict) -> list[str]:
    return [word.format(**values) for word in template.split()]


def resident_mb(pid: int) -> float:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def wait_until_serving(server: Server, process: subprocess.Popen, port: int) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise SystemExit(f"{server.name} does not serve (status {process.poll()})")


def show_end_of(log: pathlib.Path) -> None:
    """Shows what the log says about a failure, because the log is removed with the directory."""
    for line in log.read_text(errors="replace").splitlines()[-20:]:
        print(line, file=sys.stderr)


def stop(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def certificate(directory: pathlib.Path) -> None:
    """Makes a certificate of 127.0.0.1 and its key, in the forms that servers and client read."""
    key, made = directory / "key.pem", directory / "certificate.pem"
    kind = "req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -days 7 -subj /CN=127.0.0.1"
    of = "-addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=CA:FALSE"
    to = ["-keyout", str(key), "-out", str(made)]
    command = ["openssl", *kind.split(), *of.split(), *to]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    (directory / "server.pem").write_text(key.read_text() + made.read_text())


def kafka_version() -> str:
    pom = xml.etree.ElementTree.parse(HERE / "kafka" / "pom.xml")
    return pom.findtext(".//{*}kafka.version") or ""


def kafka_jars(target: pathlib.Path) -> pathlib.Path:
    """Downloads Kafka once for each version."""
    jars = target / "benches" / f"kafka-{kafka_version()}"
    complete = jars / ".complete"
    if not complete.exists():
        pom = str(HERE / "kafka" / "pom.xml")
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        subprocess.run(["mvn", "-q", "-B", "-Dstyle.color=never", "-f", pom, *goal], check=True)
        complete.touch()
    return jars
