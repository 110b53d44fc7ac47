#!/usr/bin/env python3
"""Random transcripts by the oracle's own generator, without operations that muster has no counterpart of.

  MUSTER_ORACLE=<the oracle's folder> generate.py OUT AREA:SEED[:STEPS]...     writes an OUT/AREA-SEED.jsonl for each

An area is a kind of transcript.

- share-state: the area of the generator.
- quiet, busy: every write of a share partition is answered at once, without an error, and offsets are altered only while no
  share partition is open. A fetch waits for at most half a second, and never while a lock ends: Kafka ends locks one by
  one, and gives a waiting fetch only the records of the first lock. No lock is left when a share partition is closed: Kafka
  would still end and write such a lock.
- busy: share partitions are opened again more often, and logs are cut more often.
- dead: groups have a dead letter queue. Letters may be answered late, but not after their share partition is closed.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["MUSTER_ORACLE"])
import gen
import gen_share

WAIT = 500


class Quiet(gen_share.Partition):
    MOVES = {"leader": 0.7, "trim": 1.5, "leave": 2}

    def slow(self):
        self.fetch()

    hold = fail = alter = reload = slow

    def ask(self, op, then=None):
        if op["op"] != "fetch":
            return super().ask(op, then)
        if op.pop("max_wait_ms", 0) and self.chance(0.25):
            self.expire()
            op["max_wait_ms"] = self.r.choice([100, WAIT])
        out = super().ask(op, then)
        if out.get("deferred"):
            if self.chance(0.5):
                self.produce()
            self.op({"op": "advance", "ms": WAIT})
        return out

    def leader(self):
        self.expire()
        super().leader()

    def leave(self):
        self.expire()
        super().leave()

    def advance(self):
        super().advance()
        if self.transactions:
            return
        for name in ("leader", "trim", "leave"):
            if self.chance(self.MOVES[name] / 100):
                getattr(self, name)()

    def finish(self):
        self.op({"op": "advance", "ms": 20000})
        self.op({"op": "dump"})


class Busy(Quiet):
    MOVES = {"leader": 30, "trim": 25, "leave": 25}


class Dead(Quiet, gen_share.Dead):
    MOVES = {"leader": 0, "trim": 1.5, "leave": 0}

    def answer_letters(self):
        self.letters = False
        self.last()

    def leader(self):
        self.answer_letters()
        super().leader()

    def leave(self):
        self.answer_letters()
        super().leave()

    def finish(self):
        self.answer_letters()
        super().finish()


AREAS = {"share-state": gen_share.State, "quiet": Quiet, "busy": Busy, "dead": Dead}


def main():
    out, oracle = sys.argv[1], gen.Oracle("share")
    for job in sys.argv[2:]:
        area, seed, *steps = job.split(":")
        kind = {"share-state": "share-state", "dead": "share-dlq"}.get(area, "share-partition")
        sim = AREAS[area](oracle, kind, seed, int(steps[0]) if steps else 500)
        with open(os.path.join(out, "%s-%s.jsonl" % (area, seed)), "w") as f:
            f.write("\n".join(sim.run()) + "\n")
    oracle.close()


main()
