#!/usr/bin/env python3
"""A client of the staged incidents, by confluent-kafka (librdkafka): a consumer, a producer, or idle connections.

    client.py consume BOOTSTRAP GROUP TOPIC [NAME=VALUE ...]
    client.py produce BOOTSTRAP TOPIC RECORDS_PER_SECOND
    client.py idle BOOTSTRAP CONNECTIONS

The names of a consumer's settings are keys of librdkafka, and `pause`: the seconds that it works on a record."""

import socket
import sys
import time

from confluent_kafka import Consumer, Producer


def consume(bootstrap, group, topic, *pairs):
    settings = dict(pair.split("=", 1) for pair in pairs)
    pause = float(settings.pop("pause", 0))
    # In the new protocol the server decides both settings.
    is_classic = settings.get("group.protocol") != "consumer"
    times = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000} if is_classic else {}
    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": settings.pop("client.id", group),
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 1000,
        "topic.metadata.refresh.interval.ms": 1000,
        **times,
        **settings,
    })
    consumer.subscribe([topic])
    while True:
        message = consumer.poll(1)
        if message is None or message.error():
            if message is not None:
                print(message.error(), file=sys.stderr, flush=True)
            continue
        time.sleep(pause)


def produce(bootstrap, topic, rate):
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    number, began = 0, time.monotonic()
    while True:
        producer.produce(topic, key=str(number), value=b"x" * 100)
        producer.poll(0)
        number += 1
        time.sleep(max(0, began + number / float(rate) - time.monotonic()))


def idle(bootstrap, connections):
    """Connections that say nothing."""
    host, port = bootstrap.rsplit(":", 1)
    held = []
    while len(held) < int(connections):
        try:
            held.append(socket.create_connection((host, int(port)), timeout=5))
        except OSError as error:
            print(error, file=sys.stderr, flush=True)
            break
    while True:
        time.sleep(60)


if __name__ == "__main__":
    ACTS = {"consume": consume, "produce": produce, "idle": idle}
    ACTS[sys.argv[1]](*sys.argv[2:])
