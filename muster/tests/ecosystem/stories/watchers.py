"""Programs that watch lag from outside. The lag that they show for a group must be exact: while its
member reads, when the member has left, and after kill -9 of the server. No package registry offers
these programs to this run: they are started from the directory of --binaries."""

import json
import re

from harness.clients import run
from harness.servers import Kafka, free_ports
from stories.pipeline import FIRST_ID, PARTITIONS, WAIT_SECONDS, Pipeline
from stories.program import QUICK_JAVA, get

PROBED = "probed"  # the topic of kminion's probes
READ, LEFT, MORE = 400, 100, 60  # records that are read, left behind, and produced after the kill


class Watcher(Pipeline):
    """A story of a program that watches lag. Subclasses start the program, and return the lag that
    it shows for a group."""

    shown = None  # the lags that the program showed, as the story expected them

    @classmethod
    def missing(cls, options):
        binary = options.binaries and options.binaries / cls.name
        if not binary or not binary.exists():
            return f"no {cls.name} in the directory of --binaries"

    def run(self):
        self.shown = []
        self.control = self.producer("control", self.topic)
        self.port = free_ports(1)
        self.start_tool()
        member = self.reader("member", self.topic, self.group)
        self.produce(FIRST_ID, READ)
        self.lag_is(0, "a member has read all")
        member.leave()
        self.produce(FIRST_ID + READ, LEFT)
        self.lag_is(LEFT, "the member has left")
        self.kill_server()
        self.lag_is(LEFT, "the server was killed")
        self.produce(FIRST_ID + READ + LEFT, MORE)
        self.lag_is(LEFT + MORE, "more was produced")
        self.also()
        successor = self.reader("successor", self.topic, self.group)
        self.lag_is(0, "the next member has read all")
        successor.leave()
        self.end()

    def produce(self, first, count):
        self.control.ask(f"produce {first} {count}", "produced", WAIT_SECONDS)

    def lag_is(self, expected, when):
        self.clock.until(lambda: self.lag() == expected, f"lag {expected} as {when}: not {self.lag()}",
                         WAIT_SECONDS)
        self.shown.append(expected)
        self.note(f"{self.name} shows lag {expected}: {when}")

    def also(self):
        """Checks further features of the program."""

    def figures(self):
        return f"lag {', '.join(map(str, self.shown or []))}"

    def binary(self):
        return self.options.binaries / self.name

    def lag_in_metrics(self, metric, group, topic):
        """The sum over all partitions; None if the page lacks some of them."""
        labels = {f'{group}="{self.group}"', f'{topic}="{self.topic}"'}
        found = [value for names, value in self.metrics(metric) if labels <= names]
        return sum(found) if len(found) == PARTITIONS else None

    def metrics(self, metric):
        """Pairs of the labels and the value of each series."""
        page = get(f"http://127.0.0.1:{self.port}/metrics") or ""
        line = re.compile(rf"^{metric}(?:{{(.*)}})? (\S+)$", re.MULTILINE)
        return [(set(labels.split(",")), float(value)) for labels, value in line.findall(page)]


class KafkaExporter(Watcher):
    name = "kafka_exporter"

    def start_tool(self):
        words = [self.binary(), f"--kafka.server={self.server.bootstrap}",
                 f"--web.listen-address=127.0.0.1:{self.port}", "--refresh.metadata=1s"]
        self.tool = self.program(self.name, words)

    def lag(self):
        return self.lag_in_metrics("kafka_consumergroup_lag", "consumergroup", "topic")


class KafkaOfNode0(Kafka):
    def _place(self):
        place = super()._place()
        voters = place["controller.quorum.voters"].replace("1@", "0@", 1)
        return place | {"node.id": 0, "controller.quorum.voters": voters}


class Kminion(Watcher):
    """kminion with its end-to-end probes. It expects partition i of the probes' topic on broker i,
    and assumes that broker ids begin with 0: at its start it moves partitions that are
    elsewhere."""

    name = "kminion"
    kafka = KafkaOfNode0

    def start_tool(self):
        """Creates the topic of the probes first: without it kminion would panic."""
        brokers = ",".join(map(str, range(self.case.shards)))
        words = ["--create", "--topic", PROBED, "--replica-assignment", brokers]
        run(*QUICK_JAVA, "-cp", self.options.kafka, "org.apache.kafka.tools.TopicCommand",
            "--bootstrap-server", self.server.bootstrap, *words)
        self.tool = self.program(self.name, [self.binary()], {
            "KAFKA_BROKERS": self.server.bootstrap,
            "MINION_ENDTOEND_ENABLED": "true",
            "MINION_ENDTOEND_TOPICMANAGEMENT_NAME": PROBED,
            "EXPORTER_HOST": "127.0.0.1",
            "EXPORTER_PORT": str(self.port),
        })

    def lag(self):
        return self.lag_in_metrics("kminion_kafka_consumer_group_topic_partition_lag", "group_id",
                                   "topic_name")

    def also(self):
        """Checks that probes arrive. (kminion counts commits only within 10 s after it has found
        its coordinator.)"""
        names = ("messages_acked_total", "messages_received_total")
        before = {name: self.probes(name) for name in names}
        for name in names:
            self.clock.until(lambda: self.probes(name) > before[name], f"kminion's {name} grow",
                             WAIT_SECONDS)

    def probes(self, name):
        return sum(value for _, value in self.metrics(f"kminion_end_to_end_{name}"))


class Burrow(Watcher):
    name = "Burrow"

    def start_tool(self):
        config = self.case.directory / "burrow"
        config.mkdir(exist_ok=True)
        (config / "burrow.toml").write_text(burrow_config(self.server.bootstrap, self.port))
        self.tool = self.program(self.name, [self.binary(), "--config-dir", config])

    def lag(self):
        url = f"http://127.0.0.1:{self.port}/v3/kafka/local/consumer/{self.group}/lag"
        answer = get(url)
        return json.loads(answer)["status"]["totallag"] if answer else None


def burrow_config(bootstrap, port):
    return f"""
[client-profile.local]
client-id="burrow"
kafka-version="2.0.0"
[cluster.local]
class-name="kafka"
servers=["{bootstrap}"]
client-profile="local"
topic-refresh=1
offset-refresh=1
[consumer.local]
class-name="kafka"
cluster="local"
servers=["{bootstrap}"]
client-profile="local"
start-latest=false
[httpserver.default]
address="127.0.0.1:{port}"
[storage.default]
class-name="inmemory"
workers=1
intervals=15
min-distance=1
"""
