"""Twelve incidents. Each function causes an incident, takes notes of what an operator sees
meanwhile, and checks that the incident took effect. See README.md."""

import os
import resource
import signal
import time
from dataclasses import dataclass
from collections.abc import Callable

from harness.power import Volume
from harness.servers import Muster
from stage import BUSINESS, SHARDS, Stage, run

#: The time for which an incident without an end of its own lasts.
SECONDS = 30


@dataclass(frozen=True)
class Incident:
    name: str
    act: Callable[[Stage], None]
    settings: tuple = ()
    server: type = Muster


def a_slow_consumer(stage):
    """The members of `billing` take half a second for each record, which is slower than records
    arrive."""
    slow = [client for client in stage.clients if "billing" in client.args]
    for number, client in enumerate(slow, 1):
        stage.end(client)
        stage.consume("billing", "orders", f"client.id=billing-{number}", "pause=0.5")
    stage.until(lambda: stage.are_stable(["billing"], 2), "they are back")
    go_on(stage)
    stage.until(lambda: lag(stage, "billing") > 300, "the lag grows")


def a_consumer_that_crashes_in_a_loop(stage):
    for _ in range(4):
        third = stage.consume("billing", "orders", "client.id=billing-3")
        time.sleep(4)
        stage.end(third, signal.SIGKILL)
        time.sleep(4)
        stage.note()
    stage.until(lambda: "expired" in stage.rebalances("billing"), "one expires")


def a_topic_that_grows(stage):
    from confluent_kafka.admin import NewPartitions

    for count in range(7, 12):
        for grown in stage.kafka.create_partitions([NewPartitions("clicks", count)]).values():
            grown.result(30)
        time.sleep(4)
        stage.note()
    stage.until(lambda: {"topics", "rejoined"} & stage.rebalances("search"), "its group rebalances")


def a_bad_regular_expression(stage):
    """Members of the consumer protocol, whose expressions the server resolves, subscribe by an
    expression with a back-reference. RE2J has no back-references."""
    for number in (1, 2):
        stage.consume("fraud", r"^(o)r\1ders", "group.protocol=consumer", f"client.id=fraud-{number}")
    go_on(stage)


def a_full_disk(stage):
    with open(stage.server.data.parent / "dump-of-something", "wb") as file:
        try:
            while True:
                file.write(bytes(1 << 20))
                file.flush()
        except OSError:
            pass  # The disk is full, as intended.
    go_on(stage)


def a_stalled_disk(stage):
    run("fsfreeze", "--freeze", stage.server.volume.place)
    try:
        for _ in range(4):
            time.sleep(3)
            stage.note()
    finally:
        run("fsfreeze", "--unfreeze", stage.server.volume.place)
    stage.until(lambda: "flush of the log was slow" in stage.log(), "the flush is over")


def a_static_member_twice(stage):
    """Two processes have the same group.instance.id."""
    for number in (1, 2):
        stage.consume("billing", "orders", f"client.id=billing-new-{number}",
                      "group.instance.id=billing-blue")
        time.sleep(3)
        stage.note()
    go_on(stage)


def a_rolling_restart(stage):
    for group, topic in BUSINESS.items():
        for number in (1, 2):
            client = next(it for it in stage.clients if f"client.id={group}-{number}" in it.args)
            stage.end(client)
            time.sleep(1)
            stage.consume(group, topic, f"client.id={group}-{number}")
            time.sleep(1)
        stage.note()
    stage.until(lambda: stage.are_stable(BUSINESS, 2), "all are back")


def an_expired_session_storm(stage):
    """All consumers are paused for longer than their sessions."""
    consumers = [client for client in stage.clients if "consume" in client.args]
    for client in consumers:
        client.send_signal(signal.SIGSTOP)
    time.sleep(10)
    stage.note()
    for client in consumers:
        client.send_signal(signal.SIGCONT)
    stage.until(lambda: stage.are_stable(BUSINESS, 2), "all are back")


def a_clock_step(stage):
    """The wall clock is set two days ahead: records, and offsets of groups without members, look
    old."""
    stage.server.set_clock("+2d")
    go_on(stage)
    stage.until(lambda: "the wall clock was set" in stage.log(), "it is noticed")


def a_descriptor_shortage(stage):
    stage.client("idle", stage.server.bootstrap, 2_000)
    go_on(stage)


def a_shard_that_is_loaded_again(stage):
    """Bytes of snapshots are overwritten while unused groups are only in the snapshots."""
    archived = [f"archive-{number}" for number in range(200)]
    for group in archived:
        stage.commit(group, "orders", 1)
    snapshots = lambda: list(stage.server.data.glob("shards-*/*/snapshot"))  # noqa: E731
    stage.until(lambda: len(snapshots()) == SHARDS, "both shards have a snapshot")
    stage.server.stop()
    stage.server.start()
    stage.until(lambda: stage.are_stable(BUSINESS, 2), "all are back")
    for snapshot in snapshots():
        with open(snapshot, "r+b") as file:
            file.seek(os.path.getsize(snapshot) // 2)
            file.write(bytes(4096))
    for group in archived:
        stage.committed(group, "orders")
    go_on(stage)
    stage.until(lambda: "loaded again" in stage.log(), "a shard was loaded again")


def go_on(stage):
    """Takes notes three times while the incident lasts."""
    for _ in range(3):
        time.sleep(SECONDS / 3)
        stage.note()


def lag(stage, group):
    found = [it for it in stage.api("groups?rows=500").get("groups", []) if it["id"] == group]
    return found[0]["lag"] if found else 0


class OnVolume(Muster):
    """A server on a file system of its own, which can be filled and frozen. Only root can mount
    it."""

    data_place = "volume/data"

    def __init__(self, binary, directory, shards, settings):
        self.volume = Volume(directory)
        super().__init__(binary, directory, shards, settings)

    def discard(self):
        super().discard()
        self.volume.discard()


class WithClock(Muster):
    """A server whose wall clock can be set (libfaketime)."""

    LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"

    def __init__(self, binary, directory, shards, settings):
        super().__init__(binary, directory, shards, settings)
        self.clock = directory / "clock"
        self.set_clock("+0")

    def set_clock(self, offset):
        self.clock.write_text(offset)

    def command(self):
        faked = {"LD_PRELOAD": self.LIBRARY, "FAKETIME_TIMESTAMP_FILE": self.clock,
                 "FAKETIME_NO_CACHE": 1, "DONT_FAKE_MONOTONIC": 1}
        return ["env", *(f"{name}={value}" for name, value in faked.items()), *super().command()]


class WithFewDescriptors(Muster):
    def command(self):
        return ["prlimit", "--nofile=1024:1024", *super().command()]


INCIDENTS = (
    Incident("slow-consumer", a_slow_consumer),
    Incident("crash-loop", a_consumer_that_crashes_in_a_loop),
    Incident("growing-topic", a_topic_that_grows),
    Incident("bad-expression", a_bad_regular_expression),
    Incident("full-disk", a_full_disk, server=OnVolume),
    Incident("stalled-disk", a_stalled_disk, server=OnVolume),
    Incident("static-member-twice", a_static_member_twice),
    Incident("rolling-restart", a_rolling_restart),
    Incident("session-storm", an_expired_session_storm),
    Incident("clock-step", a_clock_step, server=WithClock),
    Incident("descriptors", a_descriptor_shortage, server=WithFewDescriptors),
    Incident("shard-loaded-again", a_shard_that_is_loaded_again,
             settings=("metadata.log.max.record.bytes.between.snapshots=4096",)),
)
