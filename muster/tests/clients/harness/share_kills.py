"""Members of a share group that acknowledge in every way, while the server is killed."""

from harness.kills import TOPIC_PARTITIONS, Kills
from harness.processes import Failure
from harness.share import ShareStory

MEMBERS = 3
MEMBER_KILLED_ONE_IN = 20


class ShareKills(Kills, ShareStory):
    """Each input is delivered until it is accepted or rejected, and this is confirmed at most once.
    The start offsets of the group never decrease. Rejected records are in the dead letter queue."""

    name = "shares"
    clients = ("java", "franz-go")

    def create_topics(self):
        self.create_group_and_topic(TOPIC_PARTITIONS)
        self.queue = f"dlq.{self.topic}"
        self.control.ask(f"share_queue {self.queue}", "queue_created")
        self.configure(f"errors.deadletterqueue.topic.name={self.queue}")
        self.admin = self.start_judge("admin", self.topic)
        self.starts = {}

    def start_processors(self):
        for _ in range(MEMBERS):
            self.start_processor()
        self.expect_state("Stable", MEMBERS)

    def start_processor(self):
        name = f"m{len(self.processors)}"
        self.processors.append(self.start_member(name, "explicit"))

    def output_grows(self):
        before = self.ledger.update().ended
        self.clock.until(lambda: self.ledger.update().ended > before, "more is acknowledged", 60)

    def victims(self):
        return [self.kill] * self.case.kills

    def kill(self):
        """Kills the server, and sometimes a member, too."""
        if self.random.randrange(MEMBER_KILLED_ONE_IN) == 0:
            alive = [p for p in self.processors if not p.expected_to_end]
            self.random.choice(alive).kill()
            self.start_processor()
        with self.ledger.crash():
            self.server.crash()
            self.server.start()
        self.note(f"server killed, {self.ledger.update().ended} records had their end before")

    def committed_offsets_stand(self):
        starts, _ = self.offsets()
        for partition, offset in self.starts.items():
            if starts.get(partition, -1) < offset:
                raise Failure(f"the start offset of partition {partition} was {offset} and is "
                              f"{starts.get(partition)}")
        self.starts = starts

    def look(self):
        """Does nothing: there is no output to read between kills."""

    def everything_comes_out(self):
        self.stream.end()
        self.drain()

    def each_input_counts_once(self):
        self.all_inputs()
        self.judge(crashed=True)
        self.letters_came()
        self.next_id = 1 + max(id for id, *_ in self.control.records)
        self.note(f"all of {self.next_id} inputs have their end")

    def letters_came(self):
        """Checks that each record whose rejection was confirmed has a dead letter. Only records
        that were rejected, or were delivered as often as the limit allows, may have a letter. A
        kill may repeat letters, as in Kafka."""
        letters = self.admin.ask(f"share_letters {self.queue}", "letters", 60)["letters"]
        found = {(partition, offset) for partition, offset, _ in letters}
        must, may = self.ledger.update().of_letters()
        if not must:
            raise Failure("no rejection was confirmed")
        if must - found:
            raise Failure(f"no letter of {sorted(must - found)[:5]}")
        if found - may:
            raise Failure(f"letters of {sorted(found - may)[:5]}, which were not rejected")
        self.note(f"{len(found)} records have letters, {len(letters) - len(found)} of them two")

    def everyone_leaves(self):
        for processor in self.processors:
            if not processor.expected_to_end:
                processor.leave()
        self.nothing_comes_again(self.start_member("last", "explicit"))
        self.control.end()
        self.admin.end()
        self.server.stop()
        self.note("clean end")

    def figures(self):
        deliveries = sum(map(len, self.ledger.update().deliveries.values()))
        return f"{super().figures()}, {deliveries} deliveries"
