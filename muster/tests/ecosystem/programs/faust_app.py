"""Faust copies a topic, and counts the inputs of each group of ids: faust repartitions them by a
topic that it makes, and keeps the counts in a table with a changelog."""

import os

import faust

BOOTSTRAP, TOPIC = os.environ["BOOTSTRAP"], os.environ["TOPIC"]
GROUPS, COUNTS = 50, 1_000_000
PADDING = "x" * 100

app = faust.App(
    f"faust-{TOPIC}",
    broker=f"kafka://{BOOTSTRAP}",
    datadir=os.environ["STATE"],
    topic_partitions=4,
    topic_replication_factor=1,
    broker_session_timeout=6,
    broker_heartbeat_interval=1,
    broker_commit_interval=1,
    web_enabled=False,
)


def raw(name):
    return app.topic(name, key_type=bytes, value_type=bytes, key_serializer="raw",
                     value_serializer="raw")


inputs, copies, counts = raw(TOPIC), raw(f"{TOPIC}-copy"), raw(f"{TOPIC}-counts")
table = app.Table("counts", key_type=int, value_type=int, default=int, partitions=4)


@app.agent(inputs)
async def copy(stream):
    async for event in stream.events():
        await (await copies.send(key=event.key, value=event.value))


@app.agent(inputs)
async def count(stream):
    async for value in stream.group_by(group_of, name="by-group"):
        group = int(group_of(value))
        table[group] += 1
        id = group * COUNTS + table[group]
        await counts.send(key=str(id).encode(), value=f"{id} {PADDING}".encode())


def group_of(value):
    return str(int(value.split()[0]) % GROUPS).encode()


if __name__ == "__main__":
    app.main()
