"""Measures how long the work of a killed instance of Kafka Streams waits, and how long other work
pauses meanwhile. Compare the figures with those of `--server kafka`."""

import statistics
import time
from collections import Counter, defaultdict

from harness.streams import COUNTS, GROUPS
from harness.streams_group import Instances


class StreamsResume(Instances):
    """An instance is killed again and again, and another one joins at once. The work of the killed
    instance waits until its session has ended, and the other instances have taken the work over."""

    name = "streams-resume"
    occasion = "losses"
    guarantee = "at_least_once"  # readers see a record once it is written

    def __init__(self, case, server, cache):
        super().__init__(case, server, cache)
        self.waits, self.pauses = [], []  # in seconds

    def victims(self):
        return [self.measure_a_loss] * self.case.kills

    def measure_a_loss(self):
        owners = self.settled_owners()
        before = dict(self.present)
        self.lose_instance()
        self.output.read_on()
        arrivals = Arrivals(self.output)
        killed, = (it.name for state, it in before.items() if state not in self.present)
        lost = set(owners.pop(killed))
        self.until_read(lambda: arrivals.of(lost, since=arrivals.began), "the work is taken over")
        self.waits.append(max(arrivals.times[group][0] for group in lost) - arrivals.began)
        kept = {group for groups in owners.values() for group in groups}
        self.settled_owners(arrivals.look)
        settled = time.monotonic()
        self.until_read(lambda: arrivals.of(kept, since=settled), "all work continues")
        self.pauses.append(max(arrivals.longest_gap(group) for group in kept))

    def everything_comes_out(self):
        """Waits until each group of ids is counted to the end, at least once. Counts that an
        instance wrote only to its changelog are skipped."""
        self.stream.end()
        inputs = Counter(id % GROUPS for id in self.all_inputs())

        def all_are_counted():
            counted = {}
            for id, *_ in self.output.records:
                group, count = divmod(id, COUNTS)
                counted[group] = max(count, counted.get(group, 0))
            return all(counted.get(group, 0) >= count for group, count in inputs.items())

        self.until_read(all_are_counted, "each group of ids is counted to the end")

    def each_input_counts_once(self):
        """Does nothing: with this guarantee an input may count twice."""

    def figures(self):
        waits, pauses = (spread(seconds) for seconds in (self.waits, self.pauses))
        return f"work resumed after {waits}, other work paused {pauses}"


class Arrivals:
    """The times at which records of each group of ids were read from the output."""

    def __init__(self, output):
        self.output, self.read = output, len(output.records)
        self.began = time.monotonic()
        self.times = defaultdict(list)

    def look(self):
        now = time.monotonic()
        for id, *_ in self.output.records[self.read:]:
            self.times[id // COUNTS].append(now)
        self.read = len(self.output.records)

    def of(self, groups, since):
        """Whether records of each of these groups have arrived since a time."""
        self.look()
        return all(self.times[group] and self.times[group][-1] >= since for group in groups)

    def longest_gap(self, group):
        times = [self.began, *self.times[group]]
        return max(after - before for before, after in zip(times, times[1:]))


def spread(seconds):
    if not seconds:
        return "(nothing)"
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"
