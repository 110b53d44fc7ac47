#!/usr/bin/env python3
"""A consumer of confluent-kafka beside the members of muster-load (SCENARIOS.md, Real clients).

    command = ["python3", "consumer.py", "{bootstrap}", "{group}", "{topics}", "{session-timeout-ms}"]

A fifth argument is group.protocol (classic, consumer), a sixth the assignor of a classic group.
"""

import json
import os
import signal
import sys
import time

from confluent_kafka import Consumer

bootstrap, group, topics, session_timeout, *rest = sys.argv[1:]
protocol = rest[0] if rest else "classic"
config = {
    "bootstrap.servers": bootstrap,
    "group.id": group,
    "group.protocol": protocol,
    "enable.auto.commit": False,
}
if protocol == "classic":
    config["session.timeout.ms"] = int(session_timeout)
    config["partition.assignment.strategy"] = rest[1] if len(rest) > 1 else "range"


def say(event, partitions=None):
    line = {"event": event}
    if partitions is not None:
        line["partitions"] = [[one.topic, one.partition] for one in partitions]
    print(json.dumps(line), flush=True)


consumer = Consumer(config)
consumer.subscribe(
    topics.split(","),
    on_assign=lambda _, partitions: say("assigned", partitions),
    on_revoke=lambda _, partitions: say("revoked", partitions),
    on_lost=lambda _, partitions: say("lost", partitions),
)
ends = []
signal.signal(signal.SIGTERM, lambda *_: ends.append(True))
parent, said = os.getppid(), time.monotonic()
# The consumer ends when muster-load ends, even if muster-load was killed.
while not ends and os.getppid() == parent:
    message = consumer.poll(0.1)
    if message is not None and message.error():
        print(message.error(), file=sys.stderr, flush=True)
    if time.monotonic() - said >= 1:
        said = time.monotonic()
        say("alive")
consumer.close()
