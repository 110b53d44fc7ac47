"""Shared by the stories of pipelines: inputs arrive without a pause, and a tool makes an output of
them. After kill -9 of the server and of the tool, each acknowledged input must be in the output."""

from collections import defaultdict

from harness.processes import Adapter, Failure
from harness.servers import SETTINGS, Kafka
from harness.story import SESSION_MS, Story
from harness.upgrade import Stream
from stories.program import Program

PARTITIONS = 4
BURST = 20  # inputs that are produced at a time
# All ids have the same number of digits, so a line of output that was cut is recognised.
FIRST_ID = 100_000
STORY_SECONDS, WAIT_SECONDS = 1200, 240
SHOWN = 10
# Each count of a group of ids is written as an id, as in Counting.java.
GROUPS, COUNTS = 50, 1_000_000


class Pipeline(Story):
    """A story of a tool. Subclasses start the tool, and return the ids in its output."""

    settings = SETTINGS
    kafka = Kafka  # the class of the server when the server is Apache Kafka
    stream = control = None  # None until they are started

    def __init__(self, case, server, options):
        super().__init__(case, server, options.cache)
        self.options = options
        self.clock.deadline += STORY_SECONDS

    @classmethod
    def missing(cls, options):
        """The reason why the story cannot run on this machine; None if it can."""

    @staticmethod
    def install(cache):
        """Installs the tool to the cache."""

    def run(self):
        self.begin()
        self.start_tool()
        self.output_grows("the tool begins")
        self.kill_server()
        self.output_grows("after a kill of the server")
        self.kill_tool()
        self.output_grows("after a kill of the tool")
        self.kill_server()
        self.output_grows("after another kill of the server")
        self.everything_comes_out()
        self.end()

    def begin(self):
        self.control = self.producer("control", self.topic)
        self.stream = Stream(self.control, BURST, FIRST_ID)

    def kill_tool(self):
        """Kills the tool, or a part of it. Its successor resumes the work."""
        self.tool.kill()
        self.start_tool()
        self.note("tool killed")

    def stop_tool(self):
        self.tool.stop()

    def kill_server(self):
        self.server.crash()
        self.server.start()
        self.note(f"server killed, {len(self.control.records)} inputs acknowledged before")

    def output_grows(self, what):
        """Waits until inputs that are produced from now on are in the output. Ids ascend."""
        with self.clock.changed:
            last = max((record[0] for record in self.control.records), default=0) + BURST
        self.clock.until(lambda: max(self.outputs(), default=0) > last, f"output grows {what}",
                         WAIT_SECONDS)
        self.note(f"output grows {what}")

    def everything_comes_out(self):
        self.stream.end()
        inputs = {record[0] for record in self.control.records}
        try:
            self.clock.until(lambda: inputs <= self.outputs(), "all inputs come out", WAIT_SECONDS)
        except Failure as failure:
            lost = sorted(inputs - self.outputs())
            raise Failure(f"{failure}: {len(lost)} of {len(inputs)} missing: {lost[:SHOWN]}") from None
        if unknown := self.outputs() - inputs:
            raise Failure(f"{len(unknown)} were never put in: {sorted(unknown)[:SHOWN]}")
        self.note(f"{len(inputs)} inputs, each in the output")

    def end(self):
        """Ends everything that still runs, cleanly."""
        self.stop_tool()
        self.control.end()
        self.server.stop()

    def figures(self):
        inputs = len(self.control.records) if self.control else 0
        return f"{inputs} inputs, {self.records_out()} outputs"

    def discard(self):
        if self.stream:
            self.stream.stop()
        super().discard()

    def producer(self, name, topic, server=None):
        """Starts a producer, which creates its topic, and commits the beginning of the topic for
        its readers."""
        producer = self.adapter("control", name, topic, "lz4", server=server)
        producer.wait("ready", 0, f"{name} starts", WAIT_SECONDS)
        producer.ask(f"create {PARTITIONS}", "created", WAIT_SECONDS)
        return producer

    def reader(self, name, topic, group=None, server=None):
        """A member of a group that reads a topic from its beginning."""
        return self.adapter("consume", name, topic, "range", group, server)

    def adapter(self, mode, name, topic, option, group=None, server=None):
        bootstrap = (server or self.server).bootstrap
        words = [mode, bootstrap, topic, group or f"readers-of-{topic}", option, SESSION_MS]
        return Adapter(self.clock, self.case.client.command(self.cache), words,
                       self.case.directory / f"{name}.log")

    def program(self, name, words, environment=None):
        return Program(self.clock, words, self.case.directory / f"{name}.log", environment)


class Copy(Pipeline):
    """A story whose output is a topic with unchanged inputs."""

    output = None  # the reader of the output topic; None until it is started

    def begin(self):
        super().begin()
        self.producer("maker", f"{self.topic}-copy").end()
        self.output = self.reader("reader", f"{self.topic}-copy")

    def outputs(self):
        with self.clock.changed:
            return {record[0] for record in self.output.records}

    def records_out(self):
        return len(self.output.records) if self.output else 0

    def end(self):
        self.output.leave()
        super().end()


class CopyAndCount(Copy):
    """The program also counts the inputs of each group of ids in a table, and writes each count to
    a topic. It must find the table again after it was killed."""

    counts_topic = "counts"

    def begin(self):
        super().begin()
        topic = f"{self.topic}-{self.counts_topic}"
        self.producer("counter", topic).end()
        self.counts = self.reader("counts", topic)

    def everything_comes_out(self):
        super().everything_comes_out()
        expected = defaultdict(int)
        for id, *_ in self.control.records:
            expected[id % GROUPS] += 1
        self.clock.until(lambda: reached(self.highest_counts(), expected), "all inputs are counted",
                         WAIT_SECONDS)

    def highest_counts(self):
        highest = defaultdict(int)
        with self.clock.changed:
            for id, *_ in self.counts.records:
                group, count = divmod(id, COUNTS)
                highest[group] = max(highest[group], count)
        return highest

    def end(self):
        self.counts.leave()
        super().end()


def reached(found, expected):
    """Whether each count is at least the number of inputs: programs count at least once."""
    return all(found[group] >= count for group, count in expected.items())
