"""The instances of an application of Kafka Streams in a streams group are upgraded to the newest
version one by one, each with its state. Meanwhile instances and the server are killed."""

from harness.clients import CLIENTS, OLDER_JAVA
from harness.processes import Failure
from harness.streams_group import INSTANCES, StreamsGroup


class StreamsUpgrade(StreamsGroup):
    """The group has members of both versions for a while. Each input is counted once, and joined
    once."""

    name = "streams-upgrade"
    clients = ("java",)
    others = (OLDER_JAVA.name,)

    def start_processors(self):
        self.versions = {}  # versions by the state directory of the instance
        self.upgraded = set()
        super().start_processors()

    def start_instance(self, state, **_):
        client = self.case.client if state in self.upgraded else CLIENTS[OLDER_JAVA.name]
        instance = super().start_instance(state, client)
        self.versions[state] = instance.wait("version", 0, f"{instance.name} starts")["version"]
        return instance

    def victims(self):
        kills = [self.kill_server, self.kill_instance]
        turns = range(max(0, self.case.kills - INSTANCES))
        victims = [self.upgrade_instance] * INSTANCES + [kills[turn % len(kills)] for turn in turns]
        self.random.shuffle(victims)
        return victims

    def upgrade_instance(self):
        state = self.random.choice(sorted(self.present.keys() - self.upgraded))
        before = self.versions[state]
        self.present.pop(state).leave()
        self.upgraded.add(state)
        self.join(state)
        if self.versions[state] == before:
            raise Failure(f"the instance with {state} has still version {before}")
        self.output_grows()
        self.note(f"instance with {state} upgraded from {before} to {self.versions[state]}")
