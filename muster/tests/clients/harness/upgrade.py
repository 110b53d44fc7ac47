"""A second story: a group that consumes changes its protocol member by member, there and back."""

import threading

from harness.clients import parts
from harness.processes import Failure
from harness.story import Story

BURST = 100  # records that are produced at a time
PAUSE_SECONDS = 0.05  # the pause between two bursts
HISTORY_LINES = 30  # the lines that are shown of a partition's history


class Upgrade(Story):
    """Rolling restarts with another group.protocol: one member leaves, and a member with the other
    protocol takes its place, until no old member is left."""

    stream = None  # None until it is started

    def run(self):
        self.classic, self.server_side = parts(self.case.assignor)
        self.create_topic()
        self.three_classic_members_share_the_partitions()
        self.upgrade()
        self.downgrade()
        self.nothing_is_lost()
        self.nothing_committed_is_read_again()
        self.everyone_leaves()

    def discard(self):
        if self.stream:
            self.stream.stop()
        super().discard()

    def three_classic_members_share_the_partitions(self):
        self.fresh = self.start_control("fresh")  # `control` produces all the time
        self.members = [self.start_consumer(name, self.classic) for name in ("a1", "b1", "c1")]
        self.everyone = [*self.members]
        self.settle(*self.members)
        self.stream = Stream(self.control)
        self.each_reads_on(*self.members)
        self.expect_group("Stable", 3, self.classic)
        self.note("three classic members read")

    def upgrade(self):
        """The first member of the new protocol converts the group."""
        self.replace("a2", self.server_side, self.server_side)
        if self.server.restartable:
            self.server_is_killed()
        self.replace("b2", self.server_side, self.server_side)
        self.replace("c2", self.server_side, self.server_side)

    def downgrade(self):
        """When the last member of the new protocol has left, the group is a classic group again."""
        self.replace("a3", self.classic, self.server_side)
        self.replace("b3", self.classic, self.server_side)
        self.replace("c3", self.classic, self.classic)

    def replace(self, name, assignor, expected):
        """The oldest member leaves while it reads; another one takes its place."""
        oldest, *others = self.members
        self.each_reads_on(oldest)
        oldest.leave()
        newest = self.start_consumer(name, assignor)
        self.everyone.append(newest)
        self.members = [*others, newest]
        self.settle(*self.members)
        self.expect_group("Stable", len(self.members), expected)
        self.each_reads_on(*self.members)
        self.note(f"{name} with {assignor} has taken the place of {oldest.name}")

    def server_is_killed(self):
        """Kills the server while members of both protocols consume. The members are paused until
        the commits are checked: otherwise they would commit again what was lost."""
        before = {member: member.count("committed") for member in self.members}
        self.clock.until(lambda: all(m.count("committed") > n for m, n in before.items()),
                         "commits of all just before the crash")
        self.server.crash()
        for member in self.members:
            member.pause()
        self.server.start()
        self.check_commits(*self.everyone)
        for member in self.members:
            member.resume()
        self.settle(*self.members)
        self.expect_group("Stable", len(self.members), self.server_side)
        self.each_reads_on(*self.members)
        self.note("the server was killed; the members of both protocols continue")

    def nothing_is_lost(self):
        """Checks that all acknowledged records were read, and that everything that was read is
        committed."""
        self.stream.end()
        self.wait_for_all_acked(*self.everyone)
        ends = {}
        for _, partition, offset in self.control.records:
            ends[partition] = max(offset + 1, ends.get(partition, 0))
        self.clock.until(
            lambda: all(max(m.commits.get(p, 0) for m in self.everyone) >= end
                        for p, end in ends.items()),
            "all that was read is committed",
        )
        found = self.committed()
        behind = {p: (found.get(p), end) for p, end in ends.items() if found.get(p, -1) < end}
        if behind:
            raise Failure(f"committed and end offsets by partition: {behind}")
        self.note(f"all {len(self.control.records)} records were read")

    def nothing_committed_is_read_again(self):
        """Checks that no member reads below an offset whose commit was acknowledged before, to this
        or to another member."""
        floor, read, again = {}, set(), 0
        for place, (adapter, event) in enumerate(self.clock.reports):
            for _, partition, offset in read_in(event):
                if offset < floor.get(partition, 0):
                    before = history_of(partition, self.clock.reports[: place + 1])
                    raise Failure(f"{adapter.name} read offset {offset} of partition {partition}, "
                                  f"which was committed up to {floor[partition]}:\n  "
                                  + "\n  ".join(before[-HISTORY_LINES:]))
                again += (partition, offset) in read
                read.add((partition, offset))
            if event["event"] == "committed":
                for partition, offset in event["offsets"].items():
                    floor[int(partition)] = max(offset, floor.get(int(partition), 0))
        self.note(f"{again} records, which were not committed, were read again")

    def everyone_leaves(self):
        for member in self.members:
            member.leave()
        self.expect_group("Empty", 0, self.classic)
        self.control.end()
        self.fresh.end()
        self.server.stop()
        self.note("clean end")


class Stream:
    """Lets a control process produce again and again, so that records arrive all the time."""

    def __init__(self, control, burst=BURST, first=0):
        self.control, self.burst, self.first, self.failure = control, burst, first, None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._produce, daemon=True)
        self.thread.start()

    def end(self):
        """Waits for the last acknowledgements."""
        self.stop()
        self.thread.join()
        if self.failure:
            raise self.failure

    def stop(self):
        self.ended.set()

    def _produce(self):
        first = self.first
        try:
            while not self.ended.wait(PAUSE_SECONDS):
                self.control.ask(f"produce {first} {self.burst}", "produced", 60)
                first += self.burst
        except Failure as failure:
            self.failure = failure


def history_of(partition, reports):
    """The reports of consumers about this partition, a line for each event."""
    lines = []
    for adapter, event in reports:
        offsets = [offset for _, p, offset in read_in(event) if p == partition]
        if offsets:
            lines.append(f"{adapter.name} read {offsets[0]} to {offsets[-1]}")
        elif event["event"] in ("assigned", "revoked"):
            held = "with" if partition in event["partitions"] else "without"
            lines.append(f"{adapter.name} {event['event']}, {held} it")
        elif event["event"] == "committed" and str(partition) in event["offsets"]:
            lines.append(f"{adapter.name} committed {event['offsets'][str(partition)]}")
        elif event["event"] in ("notice", "commit_failed"):
            lines.append(f"{adapter.name} {event['event']}: {event['error']}")
    return lines


def read_in(event):
    return event["records"] if event["event"] == "records" else ()
