"""The story of metrics that clients push (KIP-714): a subscription is made, clients push, and
/metrics shows the figures."""

import re
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from harness.clients import install_kafka
from harness.processes import Failure
from harness.servers import SETTINGS, Muster, free_ports
from harness.story import Story

SHARDS, RECORDS, PUSH_SECONDS = 2, 100, 60
COMMAND = "org.apache.kafka.tools.ClientMetricsCommand"
CONSUMER = "org_apache_kafka_consumer_"
PRODUCER = "org_apache_kafka_producer_"
OF_JAVA = {
    CONSUMER + "fetch_manager_records_consumed_total": RECORDS,
    CONSUMER + "coordinator_assigned_partitions": 12,
    PRODUCER + "record_send_total": RECORDS,
}
#: For each client, the metrics that it pushes, each with the least value that the metric reaches.
EXPECTED = {
    "java": OF_JAVA,
    "java-4.3": OF_JAVA,
    "confluent-kafka": {
        CONSUMER + "coordinator_assigned_partitions": 12,
        # Counted from the first push on. By then the client is connected.
        PRODUCER + "connection_creation_total": 0,
    },
}


@dataclass(frozen=True)
class TelemetryCase:
    client: object
    directory: Path
    shards = SHARDS
    compression = "none"

    def __str__(self):
        return f"{self.client.name:<16} {self.shards} shards  {'metrics that clients push':<46}"


class ObservedMuster(Muster):
    """A server with an admin listener of its own."""

    def __init__(self, binary, directory, shards):
        self.admin = free_ports(1)
        place = f"admin.listener=127.0.0.1:{self.admin}"
        super().__init__(binary, directory, shards, (*SETTINGS, place))

    def samples(self, name):
        """The values of a metric of clients, by their labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics") as answer:
            text = answer.read().decode()
        found = re.findall(rf"^{name}{{(.*)}} (\S+)$", text, re.MULTILINE)
        return {labels: float(value) for labels, value in found}


class Telemetry(Story):
    def run(self):
        self.subscribe()
        self.create_topic()
        consumer = self.start_consumer("consumer", self.case.client.assignors[0])
        self.settle(consumer)
        self.control.ask(f"produce 0 {RECORDS}", "produced")
        self.clock.until(lambda: len(consumer.records) >= RECORDS, "all records are read")
        for name, least in EXPECTED[self.case.client.name].items():
            self.is_shown(name, least)
        consumer.leave()
        self.control.end()
        self.server.stop()

    def subscribe(self):
        """Subscribes to all metrics, every second."""
        words = ["java", "-cp", install_kafka(self.cache), COMMAND, "--bootstrap-server"]
        words += [self.server.bootstrap, "--alter", "--name", "all", "--metrics", "*"]
        done = subprocess.run([*words, "--interval", "1000"], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failure(f"no subscription: {done.stdout}{done.stderr}")

    def is_shown(self, name, least):
        """Waits until some client shows at least this value of a metric."""
        deadline = time.monotonic() + PUSH_SECONDS
        while max((samples := self.server.samples(name)).values(), default=-1) < least:
            if time.monotonic() > deadline:
                raise Failure(f"{name} is {samples}, not {least}")
            time.sleep(0.5)
        labels = next(iter(samples))
        if "client_instance_id=" not in labels or "client_id=" not in labels:
            raise Failure(f"{name} has the labels {labels}")
        if name.startswith(CONSUMER) and f'group="{self.group}"' not in labels:
            self.note(f"{name} has no group")
        self.note(f"{name} is {max(samples.values()):g}")
