"""Kafka Streams in a streams group (KIP-1071): the server makes the internal topics and assigns the
tasks, one standby of each, while instances join, leave and are killed, and the server is killed."""

from collections import Counter

from harness.kills import Output
from harness.streams import Streams

INSTANCES = 2


class StreamsGroup(Streams):
    """A quarter of what is done to the group is a kill of the server, a quarter one of an instance
    whose state stays, a quarter one whose state is lost, and a quarter an instance that leaves
    when another has joined."""

    name = "streams-group"
    occasion = "changes"
    protocol = "streams"

    def create_topics(self):
        super().create_topics()
        self.joined = self.start_judge("joined", self.topic + "-joined")
        self.joined.ask("create 1", "created")

    def each_input_counts_once(self):
        """And is joined with itself once."""
        super().each_input_counts_once()
        joined = Output(self.joined)

        def all_are_there():
            joined.read_on()
            return len(joined.records) >= len(self.control.records)

        self.until_read(all_are_there, "each input is joined")
        expected = Counter(id for id, *_ in self.control.records)
        self.compare(expected, Counter(id for id, *_ in joined.records))
        self.joined.end()

    def start_processors(self):
        self.states = 0
        self.present = {}  # the instances that are there, by their state directories
        for _ in range(INSTANCES):
            self.join()

    def victims(self):
        kinds = [self.kill_server, self.kill_instance, self.lose_instance, self.replace_instance]
        victims = [kinds[turn % len(kinds)] for turn in range(self.case.kills)]
        self.random.shuffle(victims)
        return victims

    def join(self, state=None):
        if state is None:
            state, self.states = f"state-{self.states}", self.states + 1
        self.present[state] = self.start_instance(state)

    def kill_instance(self):
        """The next process has its state and its process id."""
        state = self.take_one()
        self.present.pop(state).kill()
        self.join(state)
        self.note(f"instance with {state} killed")

    def lose_instance(self):
        """Its standbys take over."""
        state = self.take_one()
        self.present.pop(state).kill()
        self.join()
        self.note(f"instance with {state} lost")

    def replace_instance(self):
        state = self.take_one()
        self.join()
        self.present.pop(state).leave()
        self.note(f"instance with {state} left")

    def take_one(self):
        return self.random.choice(sorted(self.present))
