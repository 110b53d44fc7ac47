"""The story that every client plays, written once for all clients."""

import time

from harness.processes import Failure
from harness.story import PARTITIONS, SESSION_MS, Story


class Scenario(Story):
    """Three consumers; one leaves, one is killed; then the server is killed."""

    def run(self):
        self.create_topic()
        if self.case.client.transactional:
            self.aborted_records_are_not_read()
        self.three_share_the_partitions()
        self.one_leaves()
        self.one_is_killed()
        if self.server.restartable:
            self.server_is_killed()
            self.nothing_acknowledged_is_lost()
            self.the_survivor_goes_on()
        self.a_new_consumer_goes_on()
        self.everyone_leaves()

    def aborted_records_are_not_read(self):
        """One transaction is aborted, another is committed, each with records and an offset of a
        group. A reader with read_committed gets only the records of the second."""
        found = self.control.ask("transact", "transacted", 40)
        if found["ids"] != list(range(10, 20)):
            raise Failure(f"of the two transactions, read_committed has read {found['ids']}")
        if found["offset"] != 20:
            raise Failure(f"the group's offset is {found['offset']}, not that of the second")
        self.note("one transaction was aborted, one committed")

    def three_share_the_partitions(self):
        self.a, self.b, self.c = self.first = [self.start_consumer(name) for name in "abc"]
        self.settle(*self.first)
        self._produce(0, 4000)
        for consumer in self.first:
            self.clock.until(lambda: consumer.records, f"{consumer.name} reads something")
        self.expect_group("Stable", 3)
        self.note("three consumers read")

    def one_leaves(self):
        """One consumer leaves while records arrive. The group must notice sooner than a session
        ends: the consumer says that it leaves, so no timeout is needed."""
        asked = self._produce_until_read(4000, 3000, self.a)
        self.a.leave()
        left = time.monotonic()
        self.settle(self.b, self.c)
        took = time.monotonic() - left
        if took * 1000 >= SESSION_MS:
            raise Failure(f"the group saw a polite leave only after {took:.1f} s")
        self.control.wait("produced", asked, "produce 4000 3000")
        self.note("one left")

    def one_is_killed(self):
        asked = self._produce_until_read(7000, 2000, self.b)
        self.b.kill()
        self.control.wait("produced", asked, "produce 7000 2000")
        self._produce(9000, 1000)
        self.settle(self.c)
        if len(self.control.records) != 10_000:
            raise Failure(f"{len(self.control.records)} of 10000 records were acknowledged")
        self.wait_for_all_acked(*self.first)
        self.note("one was killed; all 10,000 records consumed")

    def server_is_killed(self):
        """Kills the server while the producer produces and the last consumer commits. The consumer
        is paused until the commits are checked: otherwise it would commit again what was lost."""
        before = len(self.control.records), self.c.count("committed")
        self.asked = self.control.say("produce 10000 5000")
        self.clock.until(
            lambda: len(self.control.records) >= before[0] + 300
            and self.c.count("committed") > before[1],
            "acknowledgements just before the crash",
        )
        self.server.crash()
        self.c.pause()
        self.note(f"server killed after {len(self.control.records)} acknowledged records")
        self.server.start()
        self.note("server started again")

    def nothing_acknowledged_is_lost(self):
        self.fresh = self.start_control("fresh")
        self.check_commits(*self.first)
        self.c.resume()
        self.control.wait("produced", self.asked, "producing over the crash", 60)
        self._check_log()
        self.note("every acknowledged commit and record is there")

    def the_survivor_goes_on(self):
        self.wait_for_all_acked(*self.first)
        self.note("the consumer from before the crash has read everything")

    def a_new_consumer_goes_on(self):
        floor = self.committed()
        self.d = self.start_consumer("d")
        self.settle(self.c, self.d)
        self._produce(20_000, 500)
        self.wait_for_all_acked(*self.first, self.d)
        self.c.leave()
        self.settle(self.d)
        self._produce(21_000, 500)
        self.clock.until(
            lambda: {r[0] for r in self.d.records} >= set(range(21_000, 21_500)),
            "the new consumer reads what is produced",
        )
        below = [r for r in self.d.records if r[2] < floor.get(r[1], 0)]
        if below:
            raise Failure(f"the new consumer read below the committed offsets: {below[:5]}")
        self.note("a new consumer went on from the committed offsets")

    def everyone_leaves(self):
        self.d.leave()
        self.expect_group("Empty", 0)
        self.control.end()
        if self.fresh is not self.control:
            self.fresh.end()
        self.server.stop()
        self.note("clean end")

    def _produce(self, first, count):
        """Produces through the newest control process; here nothing may fail."""
        failed = self.fresh.count("failed")
        self.fresh.ask(f"produce {first} {count}", "produced")
        if self.fresh.count("failed") > failed:
            error = next(e for e in reversed(self.fresh.events) if e["event"] == "failed")
            raise Failure(f"a record was refused: {error}")

    def _produce_until_read(self, first, count, consumer):
        """Lets the control process produce; continues once this consumer has read some of the
        records."""
        # Counted before the command, because the consumer may read all records at once.
        before = len(consumer.records)
        asked = self.control.say(f"produce {first} {count}")
        self.clock.until(lambda: len(consumer.records) > before, f"{consumer.name} reads on")
        return asked

    def _check_log(self):
        """Reads the whole topic again, with assigned partitions, and compares it with the
        acknowledgements."""
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
