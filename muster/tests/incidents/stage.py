"""A server with groups at work, and the view of an operator: the log, the page's API, and
metrics."""

import json
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import closing
from pathlib import Path

from harness.processes import Failure, kill, spawn
from harness.servers import Muster, free_ports

HERE = Path(__file__).resolve().parent
#: Groups without trouble, among which the reader must find the group with the trouble.
BUSINESS = {"billing": "orders", "shipping": "orders", "search": "clicks", "audit": "logins"}
TOPICS = dict.fromkeys(BUSINESS.values(), 6)
SETTINGS = ("group.initial.rebalance.delay.ms=500", "admin.lag.interval.ms=1000",
            "log.retention.check.interval.ms=60000")
SHARDS = 2


class Stage:
    """A server in a directory, two consumers in each group, and the notes about the server."""

    def __init__(self, binary, python, directory, settings=(), server=Muster):
        directory.mkdir(parents=True)
        self.directory, self.python, self.binary = directory, python, binary
        self.admin = free_ports(1)
        listener = f"admin.listener=127.0.0.1:{self.admin}"
        self.server = server(binary, directory, SHARDS, [*SETTINGS, listener, *settings])
        self.clients = []
        self.notes = 0

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        for client in self.clients:
            kill(client)
        self.server.discard()
        shutil.rmtree(self.server.data, ignore_errors=True)

    # The normal work of the groups.

    def open_business(self):
        """Creates all topics, and starts two members in each group, and producers. Waits until the
        groups are stable."""
        from confluent_kafka.admin import AdminClient, NewTopic

        self.kafka = AdminClient({"bootstrap.servers": self.server.bootstrap})
        new = [NewTopic(name, partitions, 1) for name, partitions in TOPICS.items()]
        for created in self.kafka.create_topics(new).values():
            created.result(30)
        for topic in TOPICS:
            self.produce(topic, 20)
        for group, topic in BUSINESS.items():
            for number in (1, 2):
                self.consume(group, topic, f"client.id={group}-{number}")
        self.until(lambda: self.are_stable(BUSINESS, 2), "the groups are stable")

    def are_stable(self, groups, members):
        found = {group["id"]: group for group in self.api("groups?rows=500").get("groups", [])}
        known = [found.get(group) for group in groups]
        return all(it and it["state"] == "Stable" and it["members"] >= members for it in known)

    def consume(self, group, topic, *settings):
        return self.client("consume", self.server.bootstrap, group, topic, *settings)

    def produce(self, topic, rate):
        return self.client("produce", self.server.bootstrap, topic, rate)

    def commit(self, group, topic, offset):
        from confluent_kafka import TopicPartition

        with self.member_of(group) as consumer:
            offsets = [TopicPartition(topic, number, offset) for number in range(TOPICS[topic])]
            consumer.commit(offsets=offsets, asynchronous=False)

    def committed(self, group, topic):
        """Asks for the offsets of a group. The answer may be an error."""
        from confluent_kafka import KafkaException, TopicPartition

        with self.member_of(group) as consumer:
            try:
                consumer.committed([TopicPartition(topic, 0)], 5)
            except KafkaException as error:
                print(f"{group}: {error}")

    def member_of(self, group):
        from confluent_kafka import Consumer

        return closing(Consumer({"bootstrap.servers": self.server.bootstrap, "group.id": group}))

    def client(self, *words):
        with open(self.directory / "clients.log", "ab") as log:
            client = spawn([self.python, "-B", HERE / "client.py", *words], log)
        self.clients.append(client)
        return client

    def end(self, client, how=signal.SIGTERM):
        client.send_signal(how)
        client.wait()
        self.clients.remove(client)

    # The view of an operator.

    def note(self):
        """Keeps the present state of the page and of the metrics, in a folder of its own."""
        self.notes += 1
        place = self.directory / f"look-{self.notes}"
        place.mkdir()
        try:
            self.look(place)
        except OSError as error:
            (place / "unreachable.txt").write_text(f"{error}\n")

    def look(self, place):
        (place / "metrics.txt").write_text(self.get("/metrics"))
        for name in ("shards", "groups", "topics"):
            self.keep(place / f"{name}.json", name)
        for group in BUSINESS:
            self.keep(place / f"group-{group}.json", f"groups/{group}")
        (place / "readyz.txt").write_text(self.get("/readyz"))

    def keep(self, path, name):
        path.write_text(json.dumps(self.api(name), indent=1))

    def log(self):
        return self.server.log_path.read_text(errors="replace")

    def api(self, name):
        return json.loads(self.get(f"/api/v1/{name}"))

    def get(self, path):
        """The body, whatever the status."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}{path}", timeout=20) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def rebalances(self, group):
        """The causes of a group's rebalances, according to the page."""
        of = self.api(f"groups/{urllib.parse.quote(group)}")["rebalances"]
        return {it["cause"] for rebalance in of for it in rebalance["causes"]}

    def until(self, condition, what, seconds=90):
        limit = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > limit:
                raise Failure(f"not within {seconds} s: {what}")
            time.sleep(0.2)


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout
