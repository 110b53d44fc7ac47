"""Quix Streams copies a topic, and counts the inputs of each group of ids: it repartitions them by
a topic that it makes, and keeps the counts in a store with a changelog."""

import os

from quixstreams import Application
from quixstreams.models import TopicConfig

TOPIC = os.environ["TOPIC"]
GROUPS, COUNTS = 50, 1_000_000
PADDING = "x" * 100

app = Application(
    broker_address=os.environ["BOOTSTRAP"],
    consumer_group=f"quix-{TOPIC}",
    auto_offset_reset="earliest",
    commit_interval=1,
    state_dir=os.environ["STATE"],
    processing_guarantee="at-least-once",
)


def raw(name):
    return app.topic(name, key_serializer="bytes", key_deserializer="bytes",
                     value_serializer="bytes", value_deserializer="bytes",
                     config=TopicConfig(num_partitions=4, replication_factor=1))


def group_of(value):
    return str(int(value.split()[0]) % GROUPS)


def count(value, state):
    group = group_of(value)
    found = state.get(group, 0) + 1
    state.set(group, found)
    return int(group) * COUNTS + found


inputs = app.dataframe(raw(TOPIC))
inputs.to_topic(raw(f"{TOPIC}-copy"))
counts = inputs.group_by(group_of, name="by-group", value_serializer="bytes",
                         value_deserializer="bytes", key_serializer="str", key_deserializer="str")
counts = counts.apply(count, stateful=True)
counts = counts.apply(lambda id: f"{id} {PADDING}".encode())
counts.to_topic(raw(f"{TOPIC}-counts"), key=lambda value: value.split()[0])

if __name__ == "__main__":
    app.run()
