"""The fate of each record of a share group, by the reports of the members."""

from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass

from harness.processes import Failure

ENDS = ("accept", "reject")
SHOWN = 5


@dataclass
class Delivery:
    """A delivery of a record to a member, with the acknowledgement that the member planned, and the
    server's answer to it."""

    member: str
    count: int
    verdict: str
    restarts: int = 0  # restarts of the server before the delivery
    answer: str = ""

    @property
    def ended(self):
        return self.verdict in ENDS and self.answer == "confirmed"

    def __str__(self):
        return f"{self.member} {self.count} {self.verdict} {self.answer or 'unanswered'}"


class Ledger:
    """Collects the reports of all adapters. A place is a pair of partition and offset."""

    def __init__(self, clock, limit, restarts_before):
        """`restarts_before` says by the lock of a record how often the server had been restarted
        when it delivered the record. None if the lock does not tell."""
        self.clock, self.limit, self.read = clock, limit, 0
        self.restarts_before = restarts_before
        self.deliveries = defaultdict(list)  # by place, in order of arrival
        self.ids = {}
        #: Members that acknowledge after everything is done. An acknowledgement below the start
        #: offset is no error.
        self.late = set()
        #: The numbers of reports before each crash of the server, and before the end of the start
        #: that followed it.
        self.crashes, self.restarts = [], []
        self.ended = 0  # deliveries whose end was confirmed

    def update(self):
        with self.clock.changed:
            new = self.clock.reports[self.read:]
        for adapter, event in new:
            match event["event"]:
                case "acquired":
                    self._acquire(adapter.name, event)
                case "confirmed" | "refused":
                    self._answer(adapter.name, event)
            self.read += 1
        return self

    @contextmanager
    def crash(self):
        """Surrounds a crash of the server and the start after it."""
        self._count(self.crashes)
        yield
        self._count(self.restarts)

    def _count(self, times):
        with self.clock.changed:
            times.append(len(self.clock.reports))

    def _acquire(self, member, event):
        restarts = self._restarts(event)
        for id, partition, offset, count, verdict in event["records"]:
            place = partition, offset
            if self.ids.setdefault(place, id) != id:
                raise Failure(f"{place} was record {self.ids[place]} and is {id}")
            deliveries = self.deliveries[place]
            last = next((d for d in reversed(deliveries) if d.member == member), None)
            is_held = last and last.verdict in ("renew", "hold") and not last.answer
            if is_held and last.count == count:
                # A record that the member still holds: the report has the new verdict.
                last.verdict = verdict
            else:
                deliveries.append(Delivery(member, count, verdict, restarts))

    def _restarts(self, event):
        """The restarts of the server before the deliveries of a poll. A client may fetch records
        from a server that then crashes, and return them only when the server has been restarted.
        So the time of the report counts only if the client does not know the records' locks."""
        restarts = self.restarts_before(event["lock"]) if "lock" in event else None
        return self._passed(self.restarts) if restarts is None else restarts

    def _passed(self, times):
        return sum(time <= self.read for time in times)

    def _answer(self, member, event):
        for partition, offset in event["records"]:
            mine = [d for d in self.deliveries[partition, offset] if d.member == member]
            if not mine:
                raise Failure(f"{member} was answered about {partition, offset} without a delivery")
            # A server that has crashed does not know the former holder of a record. Like Kafka, it
            # confirms acknowledgements below the start offset, which another member may have moved.
            is_late = member in self.late or mine[-1].restarts < self._passed(self.crashes)
            mine[-1].answer = "late" if is_late else event["event"]
            self.ended += mine[-1].ended

    def held_by(self, member):
        """The delivery counts of the records that this member got, by place."""
        return {place: d.count for place, found in self.deliveries.items()
                for d in found if d.member == member}

    def of_letters(self):
        """The places that must have a dead letter, and the places that may have one."""
        must, may = set(), set()
        for place, found in self.deliveries.items():
            if any(d.verdict == "reject" and d.ended for d in found):
                must.add(place)
            if any(d.verdict == "reject" or d.count == self.limit for d in found):
                may.add(place)
        return must, may

    def history(self, place):
        return ", ".join(map(str, self.deliveries[place]))

    def check(self, produced, crashed):
        """Checks all records. With `crashed`, the server has crashed, so answers and delivery
        counts may be lost."""
        faults = [
            f"record {id} at {partition, offset}: {fault}; {self.history((partition, offset))}"
            for id, partition, offset in produced
            for fault in self._faults((partition, offset), crashed)
        ]
        if faults:
            raise Failure(f"{len(faults)} faults:\n  " + "\n  ".join(faults[:SHOWN]))

    def _faults(self, place, crashed):
        found = self.deliveries[place]
        if not found:
            yield "was never delivered"
            return
        counts = [d.count for d in found]
        confirmed = [d for d in found if d.answer == "confirmed"]
        ends = [d for d in confirmed if d.ended]
        if max(counts) > self.limit:
            yield "was delivered more often than allowed"
        if len({d.count for d in confirmed}) != len(confirmed):
            yield "two acknowledgements of one delivery were confirmed"
        if len(ends) > 1:
            yield "ended twice"
        if ends and ends[0].count != max(d.count for d in confirmed):
            yield "was acknowledged after its end"
        if not crashed:
            yield from self._strict_faults(counts, ends)
        yield from self._without_end(found, ends, crashed)

    @staticmethod
    def _strict_faults(counts, ends):
        if len(set(counts)) != len(counts):
            yield "was delivered twice with one count"
        if ends and ends[0].count != max(counts):
            yield "came again after its end"

    def _without_end(self, found, ends, crashed):
        if ends or max(d.count for d in found) == self.limit:
            return
        last = max(found, key=lambda d: d.count)
        if last.answer == "confirmed":
            yield "was released and did not come again"
        elif not (crashed and any(d.verdict in ENDS for d in found)):
            yield "has no end"
