"""Kafka Streams in a streams group (KIP-1071): the server makes the internal topics and assigns the
tasks, with one standby for each task. Meanwhile instances join, leave and are killed, and the
server is killed. At the end each instance knows which instance has a key (interactive queries). A
second story moves an application from a classic group to a streams group and back."""

from collections import Counter
from itertools import chain

from harness.kills import Output
from harness.streams import GROUPS, Streams

INSTANCES = 2


class Instances(Streams):
    """The instances of a streams group, by their state directories."""

    protocol = "streams"

    def start_processors(self):
        self.states = 0
        self.present = {}
        for _ in range(INSTANCES):
            self.join()

    def join(self, state=None):
        if state is None:
            state, self.states = f"state-{self.states}", self.states + 1
        self.present[state] = self.start_instance(state)

    def lose_instance(self):
        """Kills an instance, and starts another one without its state. The standbys take over."""
        state = self.take_one()
        self.present.pop(state).kill()
        self.join()
        self.note(f"instance with {state} lost")

    def take_one(self):
        return self.random.choice(sorted(self.present))

    def ask_instance(self, instance, question):
        """The answer of an instance; None while its stores move."""
        return instance.ask(question, question)[question]

    def settled_owners(self, meanwhile=lambda: None):
        """The groups of ids of each instance, once each instance has some and together they have
        all. `meanwhile` is called while this waits."""
        owners = {}

        def have_all():
            meanwhile()
            owners.update((it.name, self.ask_instance(it, "own")) for it in self.present.values())
            answers = owners.values()
            return all(answers) and sorted(chain(*answers)) == list(range(GROUPS))

        self.until_read(have_all, "all instances have work")
        return owners


class StreamsGroup(Instances):
    """Each quarter of the changes to the group is of one kind: the server is killed; an instance is
    killed, and its state stays; an instance is killed, and its state is lost; an instance leaves
    after another has joined."""

    name = "streams-group"
    occasion = "changes"
    joins = True

    def create_topics(self):
        super().create_topics()
        self.joined = self.start_judge("joined", self.topic + "-joined")
        self.joined.ask("create 1", "created")

    def each_input_counts_once(self):
        """Also checks that each input is joined with itself once."""
        super().each_input_counts_once()
        joined = Output(self.joined)

        def all_are_there():
            joined.read_on()
            return len(joined.records) >= len(self.control.records)

        self.until_read(all_are_there, "each input is joined")
        expected = Counter(id for id, *_ in self.control.records)
        self.compare(expected, Counter(id for id, *_ in joined.records))
        self.joined.end()

        self.queries_find_each_count()

    def queries_find_each_count(self):
        """Checks that all instances name the same owner and standby of each group of ids, and that
        owner and standby have the right count."""
        counts = Counter(id % GROUPS for id, *_ in self.control.records)
        expected = sorted([group, count] for group, count in counts.items() for _ in range(INSTANCES))
        instances = {instance.name: instance for instance in self.present.values()}

        def each_is_found():
            owners = [self.ask_instance(it, "owners") for it in instances.values()]
            stores = {name: self.ask_instance(it, "counts") for name, it in instances.items()}
            return None not in owners and None not in stores.values() and all(
                sorted(self.counts_found(named, stores)) == expected for named in owners)

        self.until_read(each_is_found, "queries reach the instances with the counts")

    def counts_found(self, owners, stores):
        """The count of each group of ids at its owner and at its standby."""
        for group, active, standbys in owners:
            for name in {active, *standbys} & stores.keys():
                yield from (count for count in stores[name] if count[0] == group)

    def victims(self):
        kinds = [self.kill_server, self.kill_instance, self.lose_instance, self.replace_instance]
        victims = [kinds[turn % len(kinds)] for turn in range(self.case.kills)]
        self.random.shuffle(victims)
        return victims

    def kill_instance(self):
        """Kills an instance. The next process has its state directory, and so its process id."""
        state = self.take_one()
        self.present.pop(state).kill()
        self.join(state)
        self.note(f"instance with {state} killed")

    def replace_instance(self):
        state = self.take_one()
        self.join()
        self.present.pop(state).leave()
        self.note(f"instance with {state} left")


class StreamsMigration(Streams):
    """The group of the application changes from classic to streams and back, each time while it has
    no members. The instances keep their state."""

    name = "streams-migration"
    occasion = "changes of protocol"

    def start_processors(self):
        self.present = [self.start_instance(f"state-{number}") for number in range(INSTANCES)]

    def victims(self):
        return [self.change_protocol] * self.case.kills

    def change_protocol(self):
        for instance in self.present:
            instance.leave()
        self.protocol = "streams" if self.protocol == "classic" else "classic"
        self.start_processors()
        self.output_grows()
        self.note(f"{self.protocol} group, {len(self.output.records)} records of output")
