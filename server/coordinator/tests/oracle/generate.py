#!/usr/bin/env python3
"""Random transcripts by the oracle's own generator (gen.py), limited to the APIs that muster serves.

  MUSTER_ORACLE=<the oracle's folder> generate.py OUT AREA:SEED[:STEPS]...     writes an OUT/AREA-SEED.jsonl for each

An area is a kind of transcript. Only the areas txn-offsets and mixed-txn have transactions.

- classic, static, offsets: every member is a classic member, and some groups are no consumer groups. There are also requests
  that gen.py never sends: old versions, unusual groups, the same group twice.
- consumer, regex, txn-offsets, migration, both-static, both-offsets: members have the protocol that gen.py gives them.
- mixed: everything at once: classic, consumer, static and regex members, groups that are converted between the protocols,
  offsets, requests of administrators, configs of groups, and topics that are created, extended and deleted.
- mixed-txn: like mixed, and producers commit offsets in transactions.
- streams: the area of gen.py.
- mixed-streams: several streams groups with larger topologies, standbys, lost answers, commits of members that lag, and
  clients of the other protocols in the same groups.
- descriptions: the area streams-topology of gen.py, with a plug-in that does not fail.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["MUSTER_ORACLE"])
import gen

STEPS = 450


class Member(gen.Classic):
    """A classic member, sometimes of the oldest versions."""

    def __init__(self, sim, group):
        super().__init__(sim, group)
        if self.instance is None and sim.chance(0.15):
            self.v = self.r.choice([0, 1])
            self.topics = self.topics or sim.pick_topics()


class Sim(gen.Sim):
    """The parts that all areas share."""

    def producer_step(self):
        self.admin()

    def fault(self):
        """A failed append ends the comparison of its group, so there are few of them."""
        k = self.r.random()
        if k < 0.5:
            self.op({"op": "reload"})
        elif k < 0.9:
            self.op({"op": "hold", "commit": True})
            for _ in range(self.r.randint(1, 4)):
                self.step_client()
                if self.chance(0.4):
                    self.admin()
            self.op({"op": "hold", "commit": False})
        else:
            self.op({"op": "fail", "append": "NOT_ENOUGH_REPLICAS"})


class ClassicSim(Sim):
    def run(self):
        self.connect = {g for g in ("classic-b", "consumer-a") if self.chance(0.3)}
        return super().run()

    def spawn(self):
        if sum(1 for c in self.clients if not c.gone) < 6:
            self.clients.append(Member(self, self.r.choice(self.groups)))

    def request(self, api, body, then=None, version=None, client=None):
        if body.get("groupId") in self.connect and body.get("protocolType") == "consumer":
            body = dict(body, protocolType="connect")
        if api == "SyncGroup" and client is not None and client.v < 2:
            version = 0
        if api in ("Heartbeat", "LeaveGroup") and "members" not in body and client is not None and client.v < 2:
            version = 0
        return super().request(api, body, then, version, client)

    def admin(self):
        r = self.r
        if self.chance(0.5):
            return super().admin()
        group = r.choice(self.groups + ["no-such-group", ""])
        other = r.choice(self.groups + ["no-such-group"])
        k = r.random()
        if k < 0.2:
            self.request("DescribeGroups", {"groups": [group, other, group]}, version=r.randint(0, 6))
        elif k < 0.3:
            self.request("DeleteGroups", {"groupsNames": [group, other, group]}, version=r.randint(0, 2))
        elif k < 0.45:
            states = ["Empty", "stable", "PREPARINGREBALANCE", "CompletingRebalance", "Dead", "odd", ""]
            self.request("ListGroups", {"statesFilter": [r.choice(states)]}, version=r.choice([4, 5]))
        elif k < 0.6:
            self.offset_fetch(group, r.choice(self.past_members), r.choice([-1, 0, 1, 5]))
        elif k < 0.7:
            self.offset_delete(group)
        elif k < 0.85:
            self.offset_commit(group, r.choice(self.past_members + [""]), r.choice([-1, 0, 1, 2]),
                               r.choice([None, "i1", "i9"]))
        else:
            self.leave_many(group)

    def leave_many(self, group):
        members = [{"memberId": self.r.choice(self.past_members + [""])}]
        if self.chance(0.5):
            members.append({"memberId": "", "groupInstanceId": self.r.choice(["i1", "i2", "i3"])})
        if self.chance(0.3):
            members.append(members[0])
        self.request("LeaveGroup", {"groupId": group, "members": members}, None, self.r.choice([3, 4, 5]))


class Consumer(gen.Consumer):
    """A member of the consumer protocol, with more of RE2J's syntax. It joins again if its group is gone."""

    DIALECT = ["o[[:lower:]]+(-eu)?", "\\Qorders\\E.*", "(?i)ORDERS.*", "\\w+", ".{5,6}", "(orders|clicks)-?\\w*", "",
               "orders{1001}", "(?=o)rders", "[z-a]", "\\p{Klingon}", "a**", "(audit", "[[:alpha:]&&o]*"]

    def answered(self, x):
        super().answered(x)
        if x is not None and x["errorCode"] == 69:
            self.epoch, self.owned, self.target = 0, {}, None

    def step(self):
        if self.epoch == -2 and self.sim.chance(0.4):
            self.epoch = 0                 # the member joins again with its former id
        super().step()

    def some_regex(self):
        return self.r.choice(self.DIALECT) if self.sim.chance(0.4) else super().some_regex()


class MixedSim(ClassicSim):
    """All kinds of groups side by side. Each client has one of the areas of gen.py."""

    GROUPS = ["classic-a", "consumer-a", "regex-a", "mixed-a", "mixed-b", "simple-a"]
    AREAS = ["consumer", "static", "regex", "migration"]
    WEIGHTS = {"step_client": 10, "round": 0.6, "pass_time": 5, "newcomer": 1.3, "roll": 0.6, "ask_offsets": 1.5,
               "admin": 1.5, "change_topics": 0.6, "configure": 0.25, "dump": 0.3, "fault": 0.2}

    def run(self):
        self.groups = self.GROUPS
        self.connect = {"classic-a"} if self.chance(0.2) else set()
        self.start()
        weights = dict(self.WEIGHTS)
        if self.chance(0.4):
            weights["fault"] = 0
        for _ in range(3):
            self.newcomer()
        for step in range(self.steps):
            if step % 60 == 59:
                self.phase = 1 - self.phase
            kind, = self.r.choices(list(weights), weights.values())
            getattr(self, kind)()
        self.op({"op": "reload"})
        self.dump()
        self.advance(120_000)
        self.dump()
        return self.lines

    def op(self, op):
        if op["op"] == "new":
            op["config"].update(self.more_configs())
        return super().op(op)

    def more_configs(self):
        r = self.r
        return {k: str(v) for k, v in {
            "group.consumer.migration.policy": r.choice(["bidirectional"] * 5 + ["upgrade", "downgrade", "disabled"]),
            "group.consumer.regex.refresh.interval.ms": r.choice([10000, 30000, 600000]),
            "offset.metadata.max.bytes": r.choice([16, 4096]),
            "offsets.retention.minutes": r.choice([1, 3, 10080, 10080]),
            "offsets.retention.check.interval.ms": r.choice([10000, 60000]),
        }.items()}

    def live(self):
        return [c for c in self.clients if not c.gone]

    def newcomer(self, group=None):
        if len(self.live()) >= 9:
            return
        group = group or self.r.choice(self.groups)
        self.area = self.r.choice(self.AREAS)
        as_classic = {"classic-a": 0.96, "consumer-a": 0.04, "regex-a": 0.1}.get(group, 0.85 if self.phase == 0 else 0.15)
        client = (Member if self.chance(as_classic) else Consumer)(self, group)
        client.area = self.area
        self.clients.append(client)

    def step_client(self):
        if self.live():
            self.step_of(self.r.choice(self.live()))

    def step_of(self, client):
        self.area = client.area
        self.advance(self.r.randint(1, 20))    # so that no two deadlines fall on one millisecond
        client.step()

    def round(self):
        """A step of each live client."""
        for client in self.live():
            self.step_of(client)

    def roll(self):
        """Replaces a member of the old protocol by a member of the new one, in a group that changes its protocol."""
        old = [c for c in self.live() if c.group.startswith("mixed") and c.member
               and isinstance(c, gen.Classic) == (self.phase == 1)]
        if old:
            client = self.r.choice(old)
            client.quit()
            self.newcomer(client.group)

    def ask_offsets(self):
        client = self.r.choice(self.clients)
        k = self.r.random()
        if k < 0.3:
            self.offset_commit(self.r.choice(self.groups))
        elif k < 0.7:
            client.commit()
        else:
            wrong = 0 if self.chance(0.8) else self.r.choice([-1, 1])
            self.offset_fetch(client.group, client.member, client.epoch + wrong)

    def dump(self):
        self.op({"op": "dump"})

    def configure(self):
        values = {"consumer.session.timeout.ms": [45000, 50000, 60000], "consumer.heartbeat.interval.ms": [5000, 7000, 15000],
                  "consumer.assignment.interval.ms": [0, 1000, 5000]}
        names = self.r.sample(sorted(values), self.r.randint(0, 3))
        configs = {name: str(self.r.choice(values[name])) for name in names}
        self.op({"op": "group_config", "group": self.r.choice(self.groups), "configs": configs})


class TxnSim(Sim):
    producer_step = gen.Sim.producer_step


class MixedTxnSim(MixedSim):
    WEIGHTS = dict(MixedSim.WEIGHTS, transact=5, ask_offsets=2.5)

    def transact(self):
        gen.Sim.producer_step(self)


class Streams(gen.Streams):
    """A member of a streams group; each group has a topology of its own."""

    def __init__(self, sim, group):
        super().__init__(sim, group)
        self.process = "p%d" % self.r.randint(1, 4)
        sim.topologies.setdefault(group, self.large_topology(1))

    def internal(self, name, partitions):
        configs = [{"key": "cleanup.policy", "value": "compact"}, {"key": "retention.ms", "value": "-1"}]
        return {"name": name, "partitions": partitions, "replicationFactor": self.r.choice([-1, 0, 1]),
                "topicConfigs": configs[:self.r.randint(0, 2)]}

    def large_topology(self, epoch):
        s, r = self.sim, self.r
        ids = r.sample(["0", "1", "2", "10", "a"], r.randint(1, 4))
        subs, counts = [], [0, 0, 0, r.randint(1, 4)]
        for number, name in enumerate(ids):
            sub = {"subtopologyId": name, "sourceTopics": [], "sourceTopicRegex": [], "stateChangelogTopics": [],
                   "repartitionSinkTopics": [], "repartitionSourceTopics": [], "copartitionGroups": []}
            if number == 0 or s.chance(0.5):
                names = sorted(t for t in s.topics if not t.startswith("app-")) or ["orders"]
                sub["sourceTopics"] = r.sample(names, min(len(names), r.randint(1, 2)))
                if s.chance(0.04):
                    sub["sourceTopics"].append("payments-eu")
            if number > 0 and (not sub["sourceTopics"] or s.chance(0.6)):
                writer = r.choice(subs)
                for _ in range(r.randint(1, 2)):
                    topic = "app-%s-%d-repartition" % (self.group, len(subs) * 10 + len(sub["repartitionSourceTopics"]))
                    sub["repartitionSourceTopics"].append(self.internal(topic, r.choice(counts)))
                    writer["repartitionSinkTopics"].append(topic)
            for store in range(r.choice([0, 1, 1, 2])):
                sub["stateChangelogTopics"].append(self.internal("app-%s-%s-%d-changelog" % (self.group, name, store), 0))
            read, internal = list(range(len(sub["sourceTopics"]))), list(range(len(sub["repartitionSourceTopics"])))
            if len(read) + len(internal) > 1 and s.chance(0.4):
                sub["copartitionGroups"] = [{"sourceTopics": r.sample(read, r.randint(0, len(read))), "sourceTopicRegex": [],
                                             "repartitionSourceTopics": r.sample(internal, r.randint(0, len(internal)))}]
            subs.append(sub)
        r.shuffle(subs)
        return {"epoch": epoch, "subtopologies": subs}

    def full(self):
        other = self.sim.chance(0.03)
        epoch = self.r.choice([0, 1, 2])
        topology = self.large_topology(epoch) if other else self.sim.topologies[self.group]
        return dict(super().full(), topology=topology)

    def commit(self):
        epoch = self.epoch + self.r.choice([0, 0, -1, -1, -2, 1])
        self.sim.offset_commit(self.group, self.member, epoch, None, self)

    def step(self):
        s, r = self.sim, self.r
        if s.chance(0.06):
            lost, self.answered = self.answered, lambda answer: None
            super().step()
            self.answered = lost
        elif s.chance(0.03) and self.epoch > 0:
            lists = [self.ids(tasks) for tasks in self.tasks]
            body = {"groupId": self.group, "memberId": self.member, "memberEpoch": self.epoch + r.choice([0, 0, -1]),
                    "activeTasks": lists[0], "standbyTasks": lists[1], "warmupTasks": lists[2]}
            self.send(body)
        else:
            super().step()


class StreamsSim(MixedSim):
    GROUPS = ["streams-a", "streams-b", "simple-a"]
    WEIGHTS = dict(MixedSim.WEIGHTS, change_topics=0.5, cross=0.5, roll=0, configure=0.5)

    def __init__(self, oracle, area, seed, steps):
        super().__init__(oracle, "streams", seed, steps)
        self.topologies = {}

    def more_configs(self):
        r = self.r
        return {k: str(v) for k, v in {
            "group.streams.num.standby.replicas": r.choice([0, 0, 1, 2]),
            "group.streams.assignment.interval.ms": r.choice([0, 0, 0, 1000, 3000]),
            "group.streams.initial.rebalance.delay.ms": r.choice([0, 0, 1000, 3000]),
            "offsets.retention.minutes": r.choice([1, 3, 10080, 10080]),
            "offsets.retention.check.interval.ms": r.choice([10000, 60000]),
        }.items()}

    def newcomer(self, group=None):
        if len(self.live()) >= 9:
            return
        group = group or self.r.choice(self.groups[:2])
        client = Streams(self, group)
        client.area = "streams"
        self.clients.append(client)

    def cross(self):
        """A client of another protocol tries a streams group, or joins it once it is empty."""
        group = self.r.choice(self.groups)
        if self.chance(0.2):
            body = {"groupId": group, "memberId": "other", "memberEpoch": 0, "subscribedTopicNames": self.pick_topics(1, 1)}
            return self.request("ShareGroupHeartbeat", body)
        client = self.r.choice([Member, Consumer])(self, group)
        client.area = self.area = "consumer"
        client.step()
        if self.chance(0.5):
            client.step()
        self.area = "streams"
        if isinstance(client, Member):
            client.quit()

    def configure(self):
        values = {"streams.session.timeout.ms": [45000, 50000, 60000], "streams.heartbeat.interval.ms": [5000, 7000, 15000],
                  "streams.assignment.interval.ms": [0, 1000, 5000], "streams.num.standby.replicas": [0, 1, 2],
                  "streams.initial.rebalance.delay.ms": [0, 3000]}
        names = self.r.sample(sorted(values), self.r.randint(0, 3))
        configs = {name: str(self.r.choice(values[name])) for name in names}
        self.op({"op": "group_config", "group": self.r.choice(self.groups), "configs": configs})


class DescriptionsSim(Sim):
    """Descriptions of topologies, with a plugin that never fails, waits or forgets."""

    def __init__(self, oracle, area, seed, steps):
        super().__init__(oracle, "streams-topology", seed, steps)

    def op(self, op):
        return {} if op["op"] == "topology_plugin" else super().op(op)


SIMS = {"classic": ClassicSim, "static": ClassicSim, "offsets": ClassicSim, "mixed": MixedSim, "txn-offsets": TxnSim,
        "mixed-txn": MixedTxnSim, "mixed-streams": StreamsSim, "descriptions": DescriptionsSim}


def main():
    out, oracle = sys.argv[1], gen.Oracle()
    for job in sys.argv[2:]:
        area, seed, *steps = job.split(":")
        sim = SIMS.get(area, Sim)(oracle, area.removeprefix("both-"), seed, int(steps[0]) if steps else STEPS)
        lines = sim.run()
        with open(os.path.join(out, "%s-%s.jsonl" % (area, seed)), "w") as f:
            f.write("\n".join(lines) + "\n")
    oracle.close()


main()
