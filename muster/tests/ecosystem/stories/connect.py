"""Kafka Connect with two distributed workers. Lines of a file go to a topic, and from the topic to
another file; records of a topic go to a third file. A worker is killed, and the other worker
notices. The server is killed, too."""

import json
import re
import threading

from harness.clients import maven_jars, renewed
from harness.servers import free_ports
from stories.install import PINS
from stories.pipeline import FIRST_ID, PARTITIONS, WAIT_SECONDS, Pipeline
from stories.program import QUICK_JAVA, ask, get

LINES = "lines"
WORKERS = ("first", "second")
RECORD = re.compile(r"(\d{6}) x{100}")  # a whole record, even after a line that a kill cut
LINE_PAUSE_SECONDS = 0.02
# The lines that the console logger of log4j shows.
LOGGED = "-Dlog4j2.level=INFO"


def install_connect(cache):
    """Installs Connect, and returns its class path. The connectors for files are plug-ins, in a
    directory of their own."""
    pom = PINS / "connect-pom.xml"
    with renewed(cache / "connect", [pom]) as (target, needed):
        if needed:
            maven_jars(pom, target)
            plugin = target / "plugins/file"
            plugin.mkdir(parents=True)
            for jar in target.glob("connect-file-*.jar"):
                jar.rename(plugin / jar.name)
    return f"{target}/*"


class Connect(Pipeline):
    lines = None  # the thread that writes lines; None until it is started

    @staticmethod
    def install(cache):
        install_connect(cache)

    def begin(self):
        super().begin()
        self.producer("maker", LINES).end()
        self.lines = Lines(self.case.directory / "lines.in")

    def start_tool(self):
        self.workers = {name: self.start_worker(name) for name in WORKERS}
        self.everyone_has_joined()
        self.connect("lines-in", "FileStreamSource", topic=LINES, file=self.lines.path)
        self.connect("lines-out", "FileStreamSink", topics=LINES, file=self.file("lines"))
        self.connect("records-out", "FileStreamSink", topics=self.topic, file=self.file("records"))
        self.all_run_on(*self.workers)

    def start_worker(self, name):
        rest = f"http://127.0.0.1:{free_ports(1)}"
        properties = self.case.directory / f"{name}.properties"
        properties.write_text(worker_config(self.server.bootstrap, rest, self.cache))
        words = [*QUICK_JAVA, LOGGED, "-cp", install_connect(self.cache),
                 "org.apache.kafka.connect.cli.ConnectDistributed", properties]
        worker = self.program(name, words)
        worker.rest = rest
        return worker

    def everyone_has_joined(self):
        """Waits until each worker answers, and so knows the leader."""
        def all_answer():
            return all(get(f"{w.rest}/connectors") is not None for w in self.workers.values())

        self.clock.until(all_answer, "the workers answer", WAIT_SECONDS)

    def connect(self, name, kind, **config):
        """Creates a connector. Retries, because a worker refuses until it knows the leader."""
        config = {key: str(value) for key, value in config.items()}
        config |= {"connector.class": kind, "tasks.max": "1"}
        body = json.dumps(config).encode()
        url = f"{self.any_worker().rest}/connectors/{name}/config"
        self.clock.until(lambda: ask(url, body, "PUT"), f"connector {name} is made", WAIT_SECONDS)

    def any_worker(self):
        return next(iter(self.workers.values()))

    def all_run_on(self, *names):
        """Waits until all three connectors and their tasks run on these workers, and each worker
        runs some of them."""
        places = {self.workers[name].rest.removeprefix("http://") for name in names}

        def all_run():
            answer = get(f"{self.any_worker().rest}/connectors?expand=status")
            if answer is None:
                return False
            found = [part for each in json.loads(answer).values()
                     for part in (each["status"]["connector"], *each["status"]["tasks"])]
            running = [part["worker_id"] for part in found if part["state"] == "RUNNING"]
            return len(running) == len(found) == 6 and set(running) == places

        self.clock.until(all_run, f"connectors run on {', '.join(names)}", WAIT_SECONDS)
        self.note(f"all connectors run on {', '.join(names)}")

    def kill_tool(self):
        """Kills one worker: the other takes over, and gives half of the work back to the next
        worker."""
        self.workers.pop(WORKERS[0]).kill()
        self.all_run_on(WORKERS[1])
        self.output_grows("on one worker")
        self.workers[WORKERS[0]] = self.start_worker(WORKERS[0])
        self.all_run_on(*WORKERS)

    def outputs(self):
        return ids_of(self.file("records"))

    def records_out(self):
        return len(self.outputs())

    def output_grows(self, what):
        super().output_grows(what)
        last = self.lines.last
        self.clock.until(lambda: max(ids_of(self.file("lines")), default=0) > last,
                         f"lines come out {what}", WAIT_SECONDS)

    def everything_comes_out(self):
        super().everything_comes_out()
        self.lines.end()
        self.clock.until(lambda: self.lines.ids() <= ids_of(self.file("lines")),
                         "all lines come out", WAIT_SECONDS)
        self.note(f"{len(self.lines.ids())} lines, each in the output")

    def figures(self):
        lines = len(self.lines.ids()) if self.lines else 0
        return f"{super().figures()}, {lines} lines"

    def stop_tool(self):
        for worker in self.workers.values():
            worker.stop()

    def discard(self):
        if self.lines:
            self.lines.end()
        super().discard()

    def file(self, name):
        return self.case.directory / f"{name}.out"


class Lines(threading.Thread):
    """Writes lines in the form of records to a file, 50 a second."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.last, self.ended = path, FIRST_ID - 1, threading.Event()
        path.touch()
        self.start()

    def run(self):
        with open(self.path, "a", buffering=1) as file:
            while not self.ended.wait(LINE_PAUSE_SECONDS):
                file.write(f"{self.last + 1} {'x' * 100}\n")
                self.last += 1

    def ids(self):
        return set(range(FIRST_ID, self.last + 1))

    def end(self):
        self.ended.set()
        self.join()


def ids_of(path):
    return {int(id) for id in RECORD.findall(path.read_text())} if path.exists() else set()


def worker_config(bootstrap, rest, cache):
    """The configs of a worker. All of its state is in the cluster, and a dead worker is noticed
    after 6 s."""
    return "\n".join([
        f"bootstrap.servers={bootstrap}",
        f"listeners={rest}",
        f"plugin.path={cache / 'connect/plugins'}",
        "group.id=connect",
        "session.timeout.ms=6000",
        "heartbeat.interval.ms=1000",
        "scheduled.rebalance.max.delay.ms=1000",
        "offset.flush.interval.ms=1000",
        "key.converter=org.apache.kafka.connect.storage.StringConverter",
        "value.converter=org.apache.kafka.connect.storage.StringConverter",
        *(f"{of}.storage.topic=connect-{of}" for of in ("config", "offset", "status")),
        *(f"{of}.storage.replication.factor=1" for of in ("config", "offset", "status")),
        f"offset.storage.partitions={PARTITIONS}",
        f"status.storage.partitions={PARTITIONS}",
        "consumer.session.timeout.ms=6000",
        "",
    ])
