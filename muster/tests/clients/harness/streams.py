"""Kafka Streams with exactly_once_v2 and a state store; its process and the server are killed."""

from collections import Counter, defaultdict

from harness.clients import streams_command
from harness.kills import KILL_SESSION_MS, Kills
from harness.processes import Failure

GROUPS, COUNTS = 50, 1_000_000  # the same values as in Counting.java


class Streams(Kills):
    """Half of the kills hit the server. Each input is counted once: the output has every count of
    each group of ids, from 1 on, once and in order."""

    name = "streams"
    clients = ("java", "java-4.3")
    protocol = "classic"
    guarantee = "exactly_once_v2"
    joins = False  # whether each input is also joined with itself

    def start_processors(self):
        self.start_instance("state")

    def start_instance(self, state, client=None, **properties):
        """Starts an instance with this state directory, by this case's client unless another client
        is given. Returns its adapter."""
        name = f"streams-{len(self.processors)}"
        command = streams_command(self.cache, client or self.case.client, **{
            "group.protocol": self.protocol, "application.server": f"{name}:1",
            "processing.guarantee": self.guarantee, "joins": str(self.joins).lower(), **properties})
        self.processors.append(self.start("process", name, self.case.directory / state,
                                          session_ms=KILL_SESSION_MS, command=command))
        return self.processors[-1]

    def victims(self):
        half = self.case.kills // 2
        victims = [self.kill_server] * (self.case.kills - half) + [self.kill_streams] * half
        self.random.shuffle(victims)
        return victims

    def kill_streams(self):
        """Kills the instance. The next process has the same state directory, so it takes over at
        once."""
        self.processors[-1].kill()
        self.start_processors()
        self.note(f"streams killed, {len(self.output.records)} records of output before")

    def expected(self, inputs):
        for group, inputs_of_group in Counter(id % GROUPS for id in inputs).items():
            yield from (group * COUNTS + count for count in range(1, inputs_of_group + 1))

    def check_order(self, records):
        last = defaultdict(int)
        for id, _, _ in sorted(records, key=lambda r: r[1:]):
            group, count = divmod(id, COUNTS)
            if count != last[group] + 1:
                raise Failure(f"after count {last[group]} of group {group} comes {count}")
            last[group] = count
