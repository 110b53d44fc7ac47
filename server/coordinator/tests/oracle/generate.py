#!/usr/bin/env python3
"""Random transcripts: the oracle's own generator, kept to what muster serves.

  MUSTER_ORACLE=<the oracle's folder> generate.py OUT AREA:SEED...      OUT/AREA-SEED.jsonl each

Nothing is transactional. In the areas classic, static and offsets every member is a classic one, and
some groups are not of consumers; what gen.py never asks (old versions, odd groups, the same group
twice) is asked too. In the areas consumer, regex, migration, both-static and both-offsets members are
of the protocol that gen.py gives them.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["MUSTER_ORACLE"])
import gen

STEPS = 450


class Member(gen.Classic):
    """A classic member, now and then of the oldest versions."""

    def __init__(self, sim, group):
        super().__init__(sim, group)
        if self.instance is None and sim.chance(0.15):
            self.v = self.r.choice([0, 1])
            self.topics = self.topics or sim.pick_topics()


class Sim(gen.Sim):
    """What all areas have in common."""

    def producer_step(self):
        self.admin()

    def fault(self):
        """A failed append ends the comparison of its group, so that few of them are enough."""
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


def main():
    out, oracle = sys.argv[1], gen.Oracle()
    for job in sys.argv[2:]:
        area, seed = job.split(":")
        sim = ClassicSim if area in ("classic", "static", "offsets") else Sim
        lines = sim(oracle, area.removeprefix("both-"), seed, STEPS).run()
        with open(os.path.join(out, "%s-%s.jsonl" % (area, seed)), "w") as f:
            f.write("\n".join(lines) + "\n")
    oracle.close()


main()
