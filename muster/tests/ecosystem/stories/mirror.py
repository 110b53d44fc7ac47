"""MirrorMaker 2 between the server and an Apache Kafka, in both directions, with the offsets of
groups. A group that has not read some records on one side reads them on the other side. The server
is killed, and so is MirrorMaker."""

import re

from harness.processes import Failure
from harness.servers import Kafka
from harness.upgrade import Stream
from stories.connect import LOGGED, install_connect
from stories.pipeline import BURST, FIRST_ID, WAIT_SECONDS, Pipeline
from stories.program import QUICK_JAVA

# The number of rounds of MirrorMaker's periodic work before anything is killed.
ROUNDS = 3
STACK_TRACE = re.compile(r"^\s+at \S+\(.*\)$", re.MULTILINE)
ROUND = "syncing topic ACLs took"


class Mirror(Pipeline):
    copies = ()  # readers of both mirrored topics, once they are started
    # Whether MirrorMaker's log was found to have no stack traces while nothing is killed.
    quiet = False

    @staticmethod
    def install(cache):
        install_connect(cache)

    def __init__(self, case, server, options):
        super().__init__(case, server, options)
        directory = case.directory / "there"
        directory.mkdir()
        self.there = Kafka(options.kafka, directory, self.settings)

    def begin(self):
        self.there.start()
        super().begin()
        self.other_control = self.producer("other-control", self.topic, self.there)
        self.other_stream = Stream(self.other_control, BURST, FIRST_ID)
        self.member = self.reader("member", self.topic, self.group)
        self.producer("maker", self.mirrored("here"), self.there).end()
        self.producer("other-maker", self.mirrored("there")).end()
        self.copies = [self.reader("copy", self.mirrored("here"), server=self.there),
                       self.reader("other-copy", self.mirrored("there"))]

    def mirrored(self, source):
        return f"{source}.{self.topic}"

    def start_tool(self):
        properties = self.case.directory / "mirror.properties"
        properties.write_text(config(self.server.bootstrap, self.there.bootstrap, self.topic))
        words = [*QUICK_JAVA, LOGGED, "-cp", install_connect(self.cache),
                 "org.apache.kafka.connect.mirror.MirrorMaker", properties]
        self.tool = self.program("mirror", words)

    def output_grows(self, what):
        super().output_grows(what)
        last = max(self.ids(self.other_control), default=0) + BURST
        self.clock.until(lambda: max(self.ids(self.copies[1]), default=0) > last,
                         f"what comes back grows {what}", WAIT_SECONDS)
        if not self.quiet:
            self.rounds_are_quiet()

    def rounds_are_quiet(self):
        """Checks that MirrorMaker's log has no stack traces. There are no ACLs on either side, and
        nothing else to report."""
        self.clock.until(lambda: self.tool.log().count(ROUND) >= 2 * ROUNDS,
                         "MirrorMaker asks for ACLs again", WAIT_SECONDS)
        if traces := STACK_TRACE.findall(self.tool.log()):
            raise Failure(f"{len(traces)} lines of stack traces in MirrorMaker's log: {traces[0]}")
        self.quiet = True
        self.note("no stack trace in MirrorMaker's log")

    def outputs(self):
        return self.ids(self.copies[0])

    def ids(self, *readers):
        with self.clock.changed:
            return {record[0] for reader in readers for record in reader.records}

    def records_out(self):
        return len(self.copies[0].records) if self.copies else 0

    def everything_comes_out(self):
        self.group_goes_on_there()
        super().everything_comes_out()
        self.other_stream.end()
        expected = self.ids(self.other_control)
        self.clock.until(lambda: expected <= self.ids(self.copies[1]), "all inputs come back",
                         WAIT_SECONDS)
        inputs = self.ids(self.control)
        self.clock.until(lambda: inputs <= self.ids(self.member, self.successor),
                         "the group reads the rest there", WAIT_SECONDS)
        if (again := len(self.ids(self.member) & self.ids(self.successor))) == len(inputs):
            raise Failure("the group began at the first offset there")
        self.note(f"{len(expected)} came back; the group read {again} again")

    def group_goes_on_there(self):
        """Continues the group on the other side, once all of its offsets are there."""
        self.member.leave()
        asker = self.adapter("control", "asker", self.mirrored("here"), "lz4", server=self.there)
        asker.wait("ready", 0, "asker starts", WAIT_SECONDS)

        def are_there():
            found = asker.ask("committed", "offsets", WAIT_SECONDS)["offsets"]
            return len(found) == len(self.member.commits) and all(found.values())

        self.clock.until(are_there, "the group's offsets are there", WAIT_SECONDS)
        asker.end()
        self.successor = self.reader("successor", self.mirrored("here"), self.group, self.there)

    def end(self):
        for reader in (*self.copies, self.successor):
            reader.leave()
        self.other_control.end()
        super().end()
        self.there.stop()

    def discard(self):
        if hasattr(self, "other_stream"):
            self.other_stream.stop()
        super().discard()
        self.there.discard()


def config(here, there, topic):
    """The configs of MirrorMaker. All periodic work is done every second."""
    intervals = ("refresh.topics", "refresh.groups", "sync.topic.acls", "sync.topic.configs",
                 "emit.checkpoints", "emit.heartbeats", "sync.group.offsets")
    internal = ("config.storage", "offset.storage", "status.storage", "checkpoints.topic",
                "heartbeats.topic", "offset-syncs.topic")
    return "\n".join([
        "clusters=here,there",
        f"here.bootstrap.servers={here}",
        f"there.bootstrap.servers={there}",
        "here->there.enabled=true",
        "there->here.enabled=true",
        f"topics={topic}",
        "groups=.*",
        "sync.group.offsets.enabled=true",
        *(f"{name}.interval.seconds=1" for name in intervals),
        *(f"{name}.replication.factor=1" for name in internal),
        "replication.factor=1",
        "offset.flush.interval.ms=1000",
        "session.timeout.ms=6000",
        "heartbeat.interval.ms=1000",
        "scheduled.rebalance.max.delay.ms=1000",
        "",
    ])
