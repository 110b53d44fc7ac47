"""Shared by the stories with kills: inputs arrive without a pause, processors make an output of
them, and processors or the server are killed at any moment. Each input must count exactly once in
the committed output."""

import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from harness.clients import CLIENTS
from harness.processes import Failure
from harness.story import Story
from harness.upgrade import Stream

KILL_SESSION_MS = 2000
TOPIC_PARTITIONS = 4
BURST = 20  # inputs that are produced at a time
LONGEST_WAIT_SECONDS = 0.5  # the longest wait before a kill
# The time limit of a case: for each kill, and for the rest.
SECONDS_PER_KILL, SECONDS_BESIDE = 20, 180
SHOWN = 10


@dataclass(frozen=True)
class KillCase:
    """A case of a story with kills. The seed decides what is killed, and when."""

    client: object
    story: type
    kills: int
    seed: int
    shards: int
    directory: Path
    compression = "lz4"

    def __str__(self):
        shards = f"{self.shards} shard{'s' if self.shards > 1 else ''}"
        what = f"{self.story.name}, {self.kills} {self.story.occasion}, seed {self.seed}"
        return f"{self.client.name:<16} {shards:<9} {what:<46}"


class Kills(Story):
    """A story with kills. Subclasses start processors, choose what is killed, and compute the
    expected output of the inputs."""

    occasion = "kills"
    others = ()  # further clients besides the client of the case
    control = stream = None  # None until they are started
    create_input = "create"

    def __init__(self, case, server, cache):
        super().__init__(case, server, cache)
        self.clock.deadline += SECONDS_BESIDE + SECONDS_PER_KILL * case.kills
        self.random = random.Random(case.seed)
        self.done = 0
        self.processors = []  # all processors, including those that have ended

    def run(self):
        self.create_topics()
        self.start_processors()
        self.stream = Stream(self.control, BURST)
        self.output_grows()
        for victim in self.victims():
            self.wait_for_a_moment()
            victim()
            self.done += 1
            self.committed_offsets_stand()
            self.look()
        self.everything_comes_out()
        self.each_input_counts_once()
        self.everyone_leaves()

    def discard(self):
        if self.stream:
            self.stream.stop()
        super().discard()

    def figures(self):
        inputs = len(self.control.records) if self.control else 0
        return f"{self.done} {self.occasion}, {inputs} inputs"

    def create_topics(self):
        self.control = self.start_judge("control", self.topic)
        self.fresh = self.control
        self.control.ask(f"{self.create_input} {TOPIC_PARTITIONS}", "created")
        reader = self.start_judge("reader", self.topic + "-output")
        reader.ask(f"create {TOPIC_PARTITIONS}", "created")
        self.output = Output(reader)
        self.offsets = {}  # the newest observed offsets, by partition

    def start_judge(self, name, topic):
        """Starts a Java client, which produces the inputs or reads the output, whatever client the
        processors use."""
        judge = self.start("control", name, self.case.compression, topic=topic,
                           command=CLIENTS["java"].command(self.cache))
        judge.wait("ready", 0, f"{name} starts")
        return judge

    def output_grows(self):
        before = len(self.output.records)
        self.until_read(lambda: len(self.output.records) > before, "there is more output")

    def until_read(self, condition, what):
        """Reads the output until a condition holds. The time for an answer is the only pause
        between two reads."""
        limit = time.monotonic() + 60
        while not condition():
            if time.monotonic() > limit:
                raise Failure(f"{what}: not within the time")
            for adapter in self.clock.adapters:
                adapter.check()
            self.output.read_on()

    def wait_for_a_moment(self):
        """Waits for a random time. In two of three cases work first continues after the last kill.
        In the third case the next kill may come while the clients still recover."""
        if self.random.randrange(3):
            self.output_grows()
        time.sleep(self.random.uniform(0, LONGEST_WAIT_SECONDS))

    def look(self):
        """Reads the output right after a kill."""
        self.output.read_on()

    def kill_server(self):
        self.server.crash()
        self.server.start()
        self.note(f"server killed, {len(self.output.records)} records of output before")

    def committed_offsets_stand(self):
        """Checks that the committed offsets of the processors' group never decrease."""
        found = self.committed()
        for partition, offset in self.offsets.items():
            if found.get(partition, -1) < offset:
                raise Failure(f"the group's offset of partition {partition} was {offset} and is "
                              f"{found.get(partition)}")
        self.offsets = found

    def committed(self):
        answer = self.output.reader.ask(f"committed_of {self.topic}", "offsets", 60)
        return {int(p): offset for p, offset in answer["offsets"].items()}

    def everything_comes_out(self):
        self.stream.end()
        inputs = len(self.control.records)
        try:
            self.until_read(lambda: len(self.output.records) >= inputs, f"{inputs} inputs come out")
        except Failure as failure:
            # The failure of this check says more. The check does not fail if inputs come out, but
            # late.
            self.each_input_counts_once()
            raise failure

    def each_input_counts_once(self):
        """Checks that a new reader finds each input once in the output, and finds the same records
        as the reader that has followed the output."""
        inputs = self.all_inputs()
        again = Output(self.start_judge("again", self.topic + "-output"))
        again.read_on()
        self.compare(Counter(self.expected(inputs)), Counter(id for id, *_ in again.records))
        self.check_order(again.records)
        if sorted(again.records) != sorted(self.output.records):
            differ = set(map(tuple, again.records)) ^ set(map(tuple, self.output.records))
            raise Failure(f"what was read of the output has changed: {sorted(differ)[:SHOWN]}")
        self.note(f"{len(inputs)} inputs, each once in the output")
        again.reader.end()

    def all_inputs(self):
        """The ids in the input. Checks that they are the acknowledged ids."""
        fresh = self.start_judge("inputs", self.topic)
        fresh.ask("dump", "dumped", 60)
        inputs = sorted(id for id, *_ in fresh.log)
        if inputs != sorted(id for id, *_ in self.control.records):
            raise Failure("the input has other records than were acknowledged")
        fresh.end()
        return inputs

    def compare(self, expected, found):
        if found == expected:
            return
        missing, extra = expected - found, found - expected
        aborted = sorted(id for id in extra if id < 0)
        raise Failure(
            f"{missing.total()} missing: {sorted(missing)[:SHOWN]}; {extra.total()} too many: "
            f"{sorted(extra)[:SHOWN]}; of these {len(aborted)} were surely aborted; the group's "
            f"offsets: {self.committed()}"
        )

    def check_order(self, records):
        """Checks the order of the records. Only some stories have an order."""

    def everyone_leaves(self):
        for processor in self.processors:
            if not processor.expected_to_end:
                processor.leave()
        self.control.end()
        self.output.reader.end()
        self.server.stop()
        self.note("clean end")


class Output:
    """The committed output, as a reader that follows it sees it."""

    def __init__(self, reader, begins=False):
        """With `begins`, reads from the beginning, although this reader has read before."""
        self.reader, self.stable = reader, {}
        self.first = len(reader.log)
        self.verb = "read_committed_again" if begins else "read_committed"

    @property
    def records(self):
        return self.reader.log[self.first:]

    def read_on(self):
        """Reads up to the last stable offsets, and checks that these never decrease."""
        answer = self.reader.ask(self.verb, "stable", 60)
        self.verb = "read_committed"
        for partition, offset in self.stable.items():
            if answer["offsets"].get(partition, -1) < offset:
                raise Failure(f"the last stable offset of partition {partition} was {offset} and "
                              f"is {answer['offsets'].get(partition)}")
        self.stable = answer["offsets"]
