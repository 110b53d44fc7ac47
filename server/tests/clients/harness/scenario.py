"""The story that every client has to live through, written once for all of them."""

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
        return f"{self.client.name:<16} {shards:<9} {self.assignor:<19} {self.compression:<7}"


class Scenario:
    """One case against one server, which has started already."""

    def __init__(self, case, server, cache):
        self.case, self.server, self.cache = case, server, cache
        self.clock = Clock(CASE_SECONDS)
        self.started = time.monotonic()
        # Cases that share a server of someone else's must not meet.
        unique = "" if server.log_path else f"-{time.time_ns()}"
        self.topic, self.group = TOPIC + unique, GROUP + unique
        self.history = open(case.directory / "case.log", "w", buffering=1)

    def run(self):
        self.create_topic()
        self.three_share_the_partitions()
        self.one_leaves()
        self.one_is_killed()
        if self.server.restartable:
            self.server_is_killed()
            self.nothing_acknowledged_is_lost()
            self.the_survivor_goes_on()
        self.a_new_consumer_goes_on()
        self.everyone_leaves()

    def create_topic(self):
        self.control = self._start_control("control")
        self.fresh = self.control  # the newest control process; after the crash, another one
        self.control.ask(f"create {len(PARTITIONS)}", "created")
        self._note("topic created")

    def three_share_the_partitions(self):
        self.a, self.b, self.c = (self._start_consumer(name) for name in "abc")
        self._settle(self.a, self.b, self.c)
        self._produce(0, 4000)
        for consumer in (self.a, self.b, self.c):
            self.clock.until(lambda: consumer.records, f"{consumer.name} reads something")
        self._expect_group("Stable", 3)
        self._note("three consumers read")

    def one_leaves(self):
        """Midway. Seen sooner than a session ends: it was said, not found out by a timeout."""
        asked = self._produce_until_read(4000, 3000, self.a)
        self.a.leave()
        left = time.monotonic()
        self._settle(self.b, self.c)
        took = time.monotonic() - left
        if took * 1000 >= SESSION_MS:
            raise Failure(f"the group saw a polite leave only after {took:.1f} s")
        self.control.wait("produced", asked, "produce 4000 3000")
        self._note("one left")

    def one_is_killed(self):
        asked = self._produce_until_read(7000, 2000, self.b)
        self.b.kill()
        self.control.wait("produced", asked, "produce 7000 2000")
        self._produce(9000, 1000)
        self._settle(self.c)
        if len(self.control.records) != 10_000:
            raise Failure(f"{len(self.control.records)} of 10000 records were acknowledged")
        self._wait_for_all_acked("a", "b", "c")
        self._note("one was killed; all 10,000 records consumed")

    def server_is_killed(self):
        """While the producer produces and the last consumer commits.

        The consumer stands still until the commits were checked, as it would mend what was lost.
        """
        before = len(self.control.records), self.c.count("committed")
        self.asked = self.control.say("produce 10000 5000")
        self.clock.until(
            lambda: len(self.control.records) >= before[0] + 300
            and self.c.count("committed") > before[1],
            "acknowledgements just before the crash",
        )
        self.server.crash()
        self.c.pause()
        self._note(f"server killed after {len(self.control.records)} acknowledged records")
        self.server.start()
        self._note("server started again")

    def nothing_acknowledged_is_lost(self):
        self.fresh = self._start_control("fresh")
        found = self._committed()
        for consumer in (self.a, self.b, self.c):
            for partition, offset in consumer.commits.items():
                if found.get(partition, -1) < offset:
                    raise Failure(
                        f"{consumer.name} had committed offset {offset} of partition "
                        f"{partition}; after the crash it is {found.get(partition)}"
                    )
        self.c.resume()
        self.control.wait("produced", self.asked, "producing over the crash", 60)
        self._check_log()
        self._note("every acknowledged commit and record is there")

    def the_survivor_goes_on(self):
        self._wait_for_all_acked("a", "b", "c")
        self._note("the consumer from before the crash has read everything")

    def a_new_consumer_goes_on(self):
        floor = self._committed()
        d = self._start_consumer("d")
        self._settle(self.c, d)
        self._produce(20_000, 500)
        self._wait_for_all_acked("a", "b", "c", "d")
        self.c.leave()
        self._settle(d)
        self._produce(21_000, 500)
        self.clock.until(
            lambda: {r[0] for r in d.records} >= set(range(21_000, 21_500)),
            "the new consumer reads what is produced",
        )
        below = [r for r in d.records if r[2] < floor.get(r[1], 0)]
        if below:
            raise Failure(f"the new consumer read below the committed offsets: {below[:5]}")
        self._note("a new consumer went on from the committed offsets")

    def everyone_leaves(self):
        self.d.leave()
        self._expect_group("Empty", 0)
        self.control.end()
        if self.fresh is not self.control:
            self.fresh.end()
        self.server.stop()
        self._note("clean end")

    def discard(self):
        for adapter in self.clock.adapters:
            adapter.kill()
        self.history.close()

    def _start_control(self, name):
        control = self._start("control", name, self.case.compression)
        control.wait("ready", 0, f"{name} starts")
        return control

    def _start_consumer(self, name):
        consumer = self._start("consume", name, self.case.assignor)
        setattr(self, name, consumer)
        return consumer

    def _start(self, mode, name, option):
        arguments = [mode, self.server.bootstrap, self.topic, self.group, option, SESSION_MS]
        command = self.case.client.command(self.cache)
        return Adapter(self.clock, command, arguments, self.case.directory / f"{name}.log")

    def _settle(self, *consumers):
        """Waits until these consumers share all partitions evenly, each with its own."""
        share = len(PARTITIONS) // len(consumers)

        def shared():
            own = [c.partitions for c in consumers]
            return all(len(p) == share for p in own) and set().union(*own) == PARTITIONS

        names = ", ".join(c.name for c in consumers)
        self.clock.until(shared, f"{names} share the partitions", 40)

    def _produce(self, first, count):
        """Produces through the newest control process; here nothing may fail."""
        failed = self.fresh.count("failed")
        self.fresh.ask(f"produce {first} {count}", "produced")
        if self.fresh.count("failed") > failed:
            error = next(e for e in reversed(self.fresh.events) if e["event"] == "failed")
            raise Failure(f"a record was refused: {error}")

    def _produce_until_read(self, first, count, consumer):
        """Lets the control process produce; goes on as soon as this consumer has read some of it."""
        before = len(consumer.records)  # counted first: it may read all of it at once
        asked = self.control.say(f"produce {first} {count}")
        self.clock.until(lambda: len(consumer.records) > before, f"{consumer.name} reads on")
        return asked

    def _wait_for_all_acked(self, *names):
        """At least once: every record that the server acknowledged was read by some consumer."""

        def missing():
            acked = {r[0] for r in self.control.records + self.fresh.records}
            return acked - {r[0] for name in names for r in getattr(self, name).records}

        try:
            self.clock.until(lambda: not missing(), "every record is consumed", 40)
        except Failure as failure:
            with self.clock.changed:
                left = sorted(missing())
            raise Failure(f"{failure}; {len(left)} missing: {left[:10]}") from None

    def _expect_group(self, state, members):
        """Asks for the group until it is as expected; each question is an answer's time apart."""
        protocol = self.case.client.protocol(self.case.assignor, members)
        deadline = time.monotonic() + 20
        while True:
            found = self.fresh.ask("group_state", "group")
            # Not every client can say how many there are, and by what protocol.
            if (found["state"], found.get("members", members)) == (state, members):
                break
            if time.monotonic() > deadline:
                raise Failure(f"the group is {found}, not {state} with {members} members")
        named = found.get("protocol", protocol) or ""
        if named != protocol:
            raise Failure(f"the group's protocol is {named!r}, not {protocol!r}")

    def fresh_control(self):
        return self.fresh

    def _committed(self):
        answer = self.fresh.ask("committed", "offsets")
        return {int(p): offset for p, offset in answer["offsets"].items()}

    def _check_log(self):
        """Reads the whole topic again, by hand, and holds the acknowledgements against it."""
        self.fresh.ask("dump", "dumped", 40)
        log = {(partition, offset): id for id, partition, offset in self.fresh.log}
        for id, partition, offset in self.control.records:
            if log.get((partition, offset)) != id:
                raise Failure(
                    f"record {id} was acknowledged at offset {offset} of partition {partition}, "
                    f"where there is {log.get((partition, offset))} after the crash"
                )
        for partition in PARTITIONS:
            offsets = sorted(o for p, o in log if p == partition)
            if offsets != list(range(len(offsets))):
                raise Failure(f"partition {partition} has gaps")
        if self.case.client.idempotent and len(set(log.values())) != len(log):
            raise Failure("an idempotent producer's records are there twice")

    def _note(self, what):
        self.history.write(f"{time.monotonic() - self.started:7.2f} s  {what}\n")
