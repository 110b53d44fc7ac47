"""Static members of a streams group: an instance that restarts keeps its work, and the group does
not rebalance. An instance that is killed loses its work when its session ends."""

from harness.processes import Failure
from harness.streams_group import INSTANCES, Instances

AWAY = -2  # the epoch of a static member that may return
AWAY_MS = 20_000  # the length of a session: longer than a restart takes


class StreamsStatic(Instances):
    """Two of three restarts are of an instance, the third is a kill of the server. The epoch of the
    group stays the same. At the end an instance is killed, and the epoch increases. Then a new
    instance with the same name joins."""

    name = "streams-static"
    occasion = "restarts"
    clients = ("java",)

    def start_processors(self):
        self.present = {}
        session = f"streams.session.timeout.ms={AWAY_MS}"
        self.control.ask(f"configure_group {session}", "configured")
        for number in range(INSTANCES):
            self.start_member(f"member-{number}")
        self.owners = self.owners_by_member()
        self.epoch = self.stable_epoch()

    def start_member(self, member):
        """Starts an instance whose state directory has the name of the member."""
        self.present[member] = self.start_instance(member, **{"group.instance.id": member})

    def victims(self):
        kinds = [self.restart_instance, self.restart_server, self.restart_instance]
        victims = [kinds[turn % len(kinds)] for turn in range(self.case.kills)]
        self.random.shuffle(victims)
        return [*victims, self.lose_instance]

    def restart_instance(self):
        member = self.take_one()
        self.present[member].leave("remain")
        if self.described()["members"][f"{member}-1"] != AWAY:  # the first thread
            raise Failure(f"{member} is not away, but: {self.described()}")
        self.start_member(member)
        self.nothing_moved(f"{member} restarted")

    def restart_server(self):
        self.kill_server()
        self.nothing_moved("server restarted")

    def nothing_moved(self, what):
        owners, epoch = self.owners_by_member(), self.stable_epoch()
        if (owners, epoch) != (self.owners, self.epoch):
            raise Failure(f"{what}: the epoch was {self.epoch} and is {epoch}, the owners were "
                          f"{self.owners} and are {owners}")
        self.note(f"{what}, epoch {epoch} stays")

    def lose_instance(self):
        member = self.take_one()
        self.present.pop(member).kill()
        self.settled_owners()  # returns once the other member has all groups of ids
        epoch = self.stable_epoch()
        if epoch <= self.epoch:
            raise Failure(f"the epoch was {self.epoch} and is {epoch} without {member}")
        self.start_member(member)
        self.settled_owners()
        self.note(f"{member} lost, epoch {epoch} after {self.epoch}")

    def owners_by_member(self):
        owners = self.settled_owners()
        return {member: owners[instance.name] for member, instance in self.present.items()}

    def stable_epoch(self):
        found = {}

        def is_stable():
            found.update(self.described())
            return found["state"] == "Stable"

        self.until_read(is_stable, "the group is stable")
        return found["epoch"]

    def described(self):
        return self.output.reader.ask("streams_group", "streams_group")
