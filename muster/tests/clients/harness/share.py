"""The story of share groups (KIP-932): several members on a partition acknowledge in every way, members
die while they hold records, locks expire, and the server is killed.

A member's option has words, joined by `-`: `explicit` (without it acknowledgements are implicit), `record_limit`
(share.acquire.mode), `hold` (keeps the records of its first poll until it is asked to leave, and
then accepts them) and `renew` (renews the held records; without `hold`, renews some records once).
"""

import time
from dataclasses import dataclass
from pathlib import Path

from harness.clients import CLIENTS
from harness.processes import Failure
from harness.share_ledger import Ledger
from harness.story import Story

PARTITIONS = 2
DELIVERY_LIMIT = 5
# The duration of locks in the part of the story where locks expire. Before this part, it is 30 s.
LOCK_SECONDS = 2
# The time limit for another delivery. It is shorter than the default lock of 30 s.
RELEASED_SECONDS = 20
LAST_ANSWERS_SECONDS = 5
MAX_POLL_RECORDS = 50  # the same value as in the adapters
EARLY, HELD, LATE, MARKERS = 1500, 200, 1000, 10


@dataclass(frozen=True)
class ShareCase:
    """A case of the story of share groups. The members use the clients in turn."""

    clients: tuple
    way: str
    shards: int
    compression: str
    directory: Path

    @property
    def client(self):
        return self.clients[0]

    def __str__(self):
        shards = f"{self.shards} shard{'s' if self.shards > 1 else ''}"
        name = self.client.name if len(self.clients) == 1 else "mixed"
        return f"{name:<16} {shards:<9} {'share-' + self.way:<38} {self.compression:<7}"


class ShareStory(Story):
    """Shared by the stories with share groups. The Java client produces, and asks for the state of
    the group."""

    control = None  # None until it is started

    def __init__(self, case, server, cache):
        super().__init__(case, server, cache)
        self.ledger = Ledger(self.clock, DELIVERY_LIMIT, server.restarts_before)
        self.next_id = 0

    def create_group_and_topic(self, partitions):
        self.control = self.start("control", "control", self.case.compression,
                                  command=CLIENTS["java"].command(self.cache))
        self.control.wait("ready", 0, "control starts")
        # Asks for the state of the group. Another client replaces it while `control` produces.
        self.admin = self.control
        self.control.ask(f"create {partitions}", "created")
        self.configure("share.auto.offset.reset=earliest")

    def configure(self, *words):
        self.control.ask(f"configure_group {' '.join(words)}", "configured")

    def produce(self, count):
        self.control.ask(f"produce {self.next_id} {count}", "produced", 60)
        self.next_id += count

    def start_member(self, name, option, client=None):
        client = client or self.case.client
        return self.start("share", name, option, command=client.command(self.cache))

    def offsets(self):
        found = self.admin.ask("share_offsets", "share_offsets", 60)
        return ({int(p): start for p, start in found["starts"].items()},
                {int(p): lag for p, lag in found["lags"].items()})

    def drain(self, seconds=60):
        """Waits until the lag of the group is 0 in each partition. The durable start offset may be
        the one before the last change, so it is not compared."""
        limit = time.monotonic() + seconds
        while True:
            ends = self.ends()
            starts, lags = self.offsets()
            if all(lags.get(partition) == 0 for partition in ends):
                return
            if time.monotonic() > limit:
                raise Failure(f"not all is done: the group is at {starts} of {ends}, lags {lags}")

    def ends(self):
        ends = {}
        for _, partition, offset in self.control.records:
            ends[partition] = max(offset + 1, ends.get(partition, 0))
        return ends

    def nothing_comes_again(self, member):
        """Checks that the last member gets only new records."""
        self.expect_state("Stable", 1)
        first = self.next_id
        self.produce(MARKERS)
        self.drain()
        self.judge(crashed=True)
        got = {id for e in member.events if e["event"] == "acquired" for id, *_ in e["records"]}
        if min(got) < first:
            raise Failure(f"what was done came again: {sorted(got)[:5]}")
        member.leave()
        self.expect_state("Empty", 0)

    def judge(self, crashed):
        """Checks the ledger. The last answers may arrive some moments after all records are done,
        so this retries."""
        limit = time.monotonic() + LAST_ANSWERS_SECONDS
        while True:
            try:
                return self.ledger.update().check(self.control.records, crashed)
            except Failure:
                if time.monotonic() > limit:
                    raise
            time.sleep(0.2)

    def figures(self):
        found = self.ledger.update().deliveries
        return f"{len(found)} records, {sum(map(len, found.values()))} deliveries"

    def expect_state(self, state, members):
        limit = time.monotonic() + 20
        while True:
            found = self.admin.ask("share_state", "group")
            if (found["state"], found["members"]) == (state, members):
                return
            if time.monotonic() > limit:
                raise Failure(f"the group is {found}, not {state} with {members} members")


class Share(ShareStory):
    def run(self):
        self.create_group_and_topic(PARTITIONS)
        self.turn = 0
        self.several_share_each_partition()
        self.a_holder_is_killed()
        self.locks_expire()
        self.judge(crashed=False)
        if self.server.restartable:
            self.server_is_killed()
        self.leave_all()
        self.nothing_comes_again(self.start_next("z"))
        self.control.end()
        self.server.stop()
        self.note("clean end")

    def start_next(self, name, hold=""):
        """A member of the client whose turn it is."""
        client = self.case.clients[self.turn % len(self.case.clients)]
        self.turn += 1
        return self.start_member(name, self.option(client, hold), client)

    def option(self, client, hold=""):
        renew = "renew" if client.renews and "explicit" in self.case.way and not hold else ""
        return "-".join(word for word in (self.case.way, hold, renew) if word)

    def start_members(self, *names):
        self.members = [self.start_next(name) for name in names]

    def leave_all(self):
        for member in self.members:
            member.leave()

    def several_share_each_partition(self):
        self.start_members("a", "b", "c")
        self.expect_state("Stable", 3)
        self.produce(EARLY)
        self.drain()
        self.each_poll_is_short()
        self.judge(crashed=False)
        self.leave_all()
        self.note(f"three members have done all {EARLY} records")

    def each_poll_is_short(self):
        """Checks the size of polls, but only with record_limit: otherwise batches stay whole. A
        poll may contain the records of two fetches."""
        if "record_limit" not in self.case.way:
            return
        for member in self.members:
            said = set()
            for event in member.events:
                if event["event"] == "acquired":
                    got = {tuple(record[:4]) for record in event["records"]}
                    # Records that were reported before do not count: they were only renewed.
                    if len(got - said) > 2 * MAX_POLL_RECORDS:
                        raise Failure(f"{member.name} got too many in one poll: {sorted(got - said)}")
                    said |= got

    def a_holder_is_killed(self):
        """Checks that the records of a killed member are delivered again at once, and not only when
        their locks expire."""
        self.produce(HELD)
        holder = self.hold("h", "hold")
        self.start_members("d", "e")
        self.expect_state("Stable", 3)
        self.produce(HELD)
        self.clock.until(lambda: any(m.count("confirmed") for m in self.members),
                         "others continue beside the holder")
        held = self.held(holder)
        holder.kill()
        self.come_again(held, holder, RELEASED_SECONDS)
        self.drain()
        self.leave_all()
        self.note(f"{len(held)} records of a member that was killed came again")

    def hold(self, name, way, client=None):
        if client:
            holder = self.start_member(name, self.option(client, way), client)
        else:
            holder = self.start_next(name, way)
        self.clock.until(lambda: holder.count("acquired"), f"{name} holds records", 40)
        return holder

    def held(self, holder):
        """The records of a holder, by place, with their delivery counts. Checks that no other
        member has got them since."""
        held = self.ledger.update().held_by(holder.name)
        for place, count in held.items():
            others = [d for d in self.ledger.deliveries[place] if d.count > count]
            if others:
                raise Failure(f"{place}, which {holder.name} holds, was delivered: {others[0]}")
        return held

    def come_again(self, held, holder, seconds):
        def again():
            self.ledger.update()
            return all(any(d.count > count and d.member != holder.name
                           for d in self.ledger.deliveries[place])
                       for place, count in held.items())

        self.clock.until(again, f"what {holder.name} held comes again", seconds)

    def locks_expire(self):
        """One holder is paused, and loses its records. If the client can renew locks, another
        holder renews, and keeps its records."""
        self.configure(f"share.record.lock.duration.ms={LOCK_SECONDS * 1000}")
        self.produce(HELD)
        stopped = self.hold("p", "hold")
        stopped.pause()
        lost = self.held(stopped)
        renewing = self.start_renewing()
        # Two members read each partition, and one of them does not renew its locks.
        self.start_members("f", "g", "i")
        self.come_again(lost, stopped, RELEASED_SECONDS)
        if renewing:
            self.leaves_in_time(renewing)
        self.drain()
        self.ledger.late.add(stopped.name)
        stopped.resume()
        stopped.leave()
        self.note(f"{len(lost)} records came again when their locks had expired")

    def start_renewing(self):
        client = next((client for client in self.case.clients if client.renews), None)
        if client is None or "explicit" not in self.case.way:
            return None
        self.produce(HELD)
        return self.hold("r", "hold-renew", client)

    def leaves_in_time(self, renewing):
        time.sleep(2 * LOCK_SECONDS)
        kept = self.held(renewing)
        renewing.leave()
        self.ledger.update()
        for place in kept:
            mine = [d for d in self.ledger.deliveries[place] if d.member == renewing.name]
            if not mine[-1].ended:
                raise Failure(f"{place} was renewed by {renewing.name}, and not confirmed: {mine[-1]}")
        self.note(f"{len(kept)} records were kept by renewing them")

    def server_is_killed(self):
        """Kills the server while records are produced and acknowledged. The locks have their
        default duration, which differs after the restart."""
        self.configure("share.record.lock.duration.ms")
        before = self.ledger.update().ended
        asked = self.control.say(f"produce {self.next_id} {LATE}")
        self.next_id += LATE
        self.clock.until(lambda: self.ledger.update().ended > before, "acknowledgements go on")
        with self.ledger.crash():
            self.server.crash()
            self.server.start()
        self.control.wait("produced", asked, "producing over the crash", 60)
        self.produce(HELD)
        self.drain()
        self.judge(crashed=True)
        self.note("the server was killed; the members have done the rest")
