"""Shared by all stories: a case, its server, its adapters, and the conditions to wait for."""

import time
from dataclasses import dataclass
from pathlib import Path

from harness.processes import Adapter, Clock, Failure

PARTITIONS = set(range(12))
SESSION_MS = 6000
CASE_SECONDS = 150
TOPIC = "orders"
GROUP = "billing"


@dataclass(frozen=True)
class Case:
    client: object
    assignor: str
    shards: int
    compression: str
    directory: Path

    def __str__(self):
        shards = f"{self.shards} shard{'s' if self.shards > 1 else ''}"
        return f"{self.client.name:<16} {shards:<9} {self.assignor:<38} {self.compression:<7}"


class Story:
    """One case against one server, which has started already. Subclasses implement `run`."""

    def __init__(self, case, server, cache):
        self.case, self.server, self.cache = case, server, cache
        self.clock = Clock(CASE_SECONDS)
        self.started = time.monotonic()
        # Cases that share an external server must not use the same names.
        unique = "" if server.log_path else f"-{time.time_ns()}"
        self.topic, self.group = TOPIC + unique, GROUP + unique
        self.history = open(case.directory / "case.log", "w", buffering=1)

    def discard(self):
        for adapter in self.clock.adapters:
            adapter.kill()
        self.history.close()

    def figures(self):
        """Additional text for the line of the case."""
        return ""

    def create_topic(self):
        self.control = self.start_control("control")
        # The newest control process. Another one replaces it after the crash.
        self.fresh = self.control
        self.control.ask(f"create {len(PARTITIONS)}", "created")
        self.note("topic created")

    def start_control(self, name):
        control = self.start("control", name, self.case.compression)
        control.wait("ready", 0, f"{name} starts")
        return control

    def start_consumer(self, name, assignor=None):
        return self.start("consume", name, assignor or self.case.assignor)

    def start(self, mode, name, option, topic=None, session_ms=SESSION_MS, command=None):
        """Starts an adapter, of this case's client unless another's command is given."""
        place = [self.server.bootstrap, topic or self.topic, self.group]
        arguments = [mode, *place, option, session_ms]
        return Adapter(self.clock, command or self.case.client.command(self.cache), arguments,
                       self.case.directory / f"{name}.log")

    def settle(self, *consumers):
        """Waits until these consumers share all partitions evenly, each with its own."""
        share = len(PARTITIONS) // len(consumers)

        def shared():
            own = [c.partitions for c in consumers]
            return all(len(p) == share for p in own) and set().union(*own) == PARTITIONS

        names = ", ".join(c.name for c in consumers)
        self.clock.until(shared, f"{names} share the partitions", 40)

    def each_reads_on(self, *consumers):
        before = {c: len(c.records) for c in consumers}
        names = ", ".join(c.name for c in consumers)
        self.clock.until(lambda: all(len(c.records) > n for c, n in before.items()),
                         f"{names} read on")

    def wait_for_all_acked(self, *consumers):
        """At least once: every record that the server acknowledged was read by some consumer."""

        def missing():
            acked = {r[0] for r in self.control.records + self.fresh.records}
            return acked - {r[0] for consumer in consumers for r in consumer.records}

        try:
            self.clock.until(lambda: not missing(), "every record is consumed", 40)
        except Failure as failure:
            with self.clock.changed:
                left = sorted(missing())
            raise Failure(f"{failure}; {len(left)} missing: {left[:10]}") from None

    def expect_group(self, state, members, assignor=None):
        """Asks for the state of the group until it is as expected. The time for an answer is the
        only pause between two questions."""
        protocol = self.case.client.protocol(assignor or self.case.assignor, members)
        deadline = time.monotonic() + 20
        while True:
            found = self.fresh.ask("group_state", "group")
            # Not every client can report the number of members and their protocol.
            if (found["state"], found.get("members", members)) == (state, members):
                break
            if time.monotonic() > deadline:
                raise Failure(f"the group is {found}, not {state} with {members} members")
        named = found.get("protocol", protocol) or ""
        if named != protocol:
            raise Failure(f"the group's protocol is {named!r}, not {protocol!r}")

    def committed(self):
        answer = self.fresh.ask("committed", "offsets")
        return {int(p): offset for p, offset in answer["offsets"].items()}

    def check_commits(self, *consumers):
        """Checks that every commit that the server acknowledged to one of these consumers still
        holds."""
        found = self.committed()
        for consumer in consumers:
            for partition, offset in consumer.commits.items():
                if found.get(partition, -1) < offset:
                    raise Failure(
                        f"{consumer.name} had committed offset {offset} of partition "
                        f"{partition}; the server says {found.get(partition)}"
                    )

    def note(self, what):
        self.history.write(f"{time.monotonic() - self.started:7.2f} s  {what}\n")
