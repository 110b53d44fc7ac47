"""confluent-kafka (librdkafka) behind the adapter protocol."""

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from confluent_share import Sharer
from protocol import (
    ABORTED, COMMITTED, SERVER_SIDE, chunks, emit, id_of, key_of, main, text_of, value_of,
)

LOADING = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


class Confluent:
    def __init__(self, place, option, session_ms):
        self.common = {"bootstrap.servers": place["bootstrap"], **security(place)}
        self.topic, self.group = place["topic"], place["group"]
        self.option, self.session_ms = option, session_ms
        self.producer = None

    def create(self, partitions):
        refusals = []
        admin = AdminClient({**self.common, "error_cb": lambda e: note_refusal(e, refusals)})
        [created] = admin.create_topics([NewTopic(self.topic, partitions, 1)]).values()
        while not created.done() and not refusals:
            admin.poll(0.1)
        if refusals:
            raise KafkaException(refusals[0])
        created.result(20)
        self._commit_beginnings(partitions)
        emit("created")

    def _commit_beginnings(self, partitions):
        """Commits the beginnings of all partitions. Otherwise librdkafka 2.16.0 may read a
        partition again from its beginning. This happens if a member without a committed offset
        loses the partition while the member looks for the place to begin: the late answer to its
        ListOffsets starts a timer, and the timer asks again after the partition was assigned once
        more."""
        consumer = self._unsubscribed(self.group)
        offsets = [TopicPartition(self.topic, p, 0) for p in range(partitions)]
        until_loaded(lambda: consumer.commit(offsets=offsets, asynchronous=False))
        consumer.close()

    def produce(self, first, count):
        if self.producer is None:
            self.producer = Producer({**self.common, "compression.type": self.option})
        for ids in chunks(first, count):
            self._produce_chunk(ids)
        emit("produced")

    def _produce_chunk(self, ids):
        acked = []

        def delivered(error, message):
            if error is not None:
                emit("failed", id=int(message.key()), error=str(error))
            else:
                acked.append([int(message.key()), message.partition(), message.offset()])

        for i in ids:
            self.producer.produce(
                self.topic, key=key_of(i), value=value_of(i), on_delivery=delivered
            )
        self.producer.flush(120)
        emit("acked", records=acked)

    def transact(self):
        topic = self.topic + "-transactions"
        producer = Producer({**self.common, "transactional.id": self.group})
        producer.init_transactions(60)
        consumer = self._unsubscribed(self.group + "-transactions")
        group = consumer.consumer_group_metadata()
        for ids, end in (
            (ABORTED, producer.abort_transaction),
            (COMMITTED, producer.commit_transaction),
        ):
            producer.begin_transaction()
            for i in ids:
                producer.produce(topic, key=key_of(i), value=value_of(i))
            producer.flush(60)
            offset = TopicPartition(topic, 0, ids.stop)
            producer.send_offsets_to_transaction([offset], group, 60)
            end(60)
        ids, offset = self._read_committed(topic), -1
        while offset < 0:
            found = until_loaded(lambda: consumer.committed([TopicPartition(topic, 0)], 20))
            offset = found[0].offset
        consumer.close()
        emit("transacted", ids=ids, offset=offset)

    def _read_committed(self, topic):
        consumer = self._unsubscribed(self.group + "-committed")
        consumer.assign([TopicPartition(topic, 0, 0)])
        ids = []
        while len(ids) < len(COMMITTED):
            ids += [id_of(m.key(), m.value()) for m in poll(consumer)]
        consumer.close()
        return ids

    def committed(self):
        # Uses a consumer: the process of the admin client dies if the coordinator is still loading.
        consumer = self._unsubscribed(self.group)
        asked = [TopicPartition(self.topic, p) for p in self._partitions(consumer)]
        found = until_loaded(lambda: consumer.committed(asked, 20))
        consumer.close()
        emit("offsets", offsets={tp.partition: tp.offset for tp in found if tp.offset >= 0})

    def group_state(self):
          # The client is kept, because its answers come only while it exists.
        admin = AdminClient(self.common)
        found = admin.describe_consumer_groups([self.group])
        group = found[self.group].result(20)
        emit(
            "group",
            state=group.state.name.capitalize(),
            protocol=group.partition_assignor,
            members=len(group.members),
        )

    def dump(self):
        # librdkafka asks for a group id, though a consumer that assigns by hand joins none.
        consumer = self._unsubscribed(self.group + "-dump")
        partitions = self._partitions(consumer)
        ends = {
            p: consumer.get_watermark_offsets(TopicPartition(self.topic, p), 20)[1]
            for p in partitions
        }
        consumer.assign([TopicPartition(self.topic, p, 0) for p in partitions])
        reached = dict.fromkeys(partitions, 0)
        while any(reached[p] < end for p, end in ends.items()):
            messages = poll(consumer)
            emit_records("log", messages)
            for message in messages:
                reached[message.partition()] = message.offset() + 1
        consumer.close()
        emit("dumped")

    def _unsubscribed(self, group):
        config = {**self.common, "group.id": group, "enable.auto.commit": False}
        return Consumer(config)

    def _partitions(self, consumer):
        return list(consumer.list_topics(self.topic, 20).topics[self.topic].partitions)

    def close(self):
        if self.producer is not None:
            self.producer.flush(20)

    def consume(self, leaving):
        consumer = Consumer({
            **self.common,
            "group.id": self.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **self._assignment(),
        })
        consumer.subscribe(
            [self.topic],
            on_assign=lambda _, tps: emit("assigned", partitions=[tp.partition for tp in tps]),
            on_revoke=lambda _, tps: emit("revoked", partitions=[tp.partition for tp in tps]),
            on_lost=lambda _, tps: emit("revoked", partitions=[tp.partition for tp in tps]),
        )
        while not leaving.is_set():
            messages = poll(consumer)
            if messages:
                emit_records("records", messages)
                self._commit(consumer, messages)
        consumer.close()

    def share(self, leaving):
        config = {**self.common, "group.id": self.group}
        Sharer(config, self.topic, self.option).run(leaving)

    def _assignment(self):
        """The configs of the assignment: by the server's assignor, or by a member."""
        if self.option.startswith(SERVER_SIDE):
            assignor = self.option.removeprefix(SERVER_SIDE)
            return {"group.protocol": "consumer", "group.remote.assignor": assignor}
        return {
            "session.timeout.ms": self.session_ms,
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": self.option,
        }

    def _commit(self, consumer, messages):
        """Commits the records that were just printed. Reports the commit once the coordinator has
        answered."""
        after = {m.partition(): m.offset() + 1 for m in messages}
        offsets = [TopicPartition(self.topic, p, offset) for p, offset in after.items()]
        try:
            for answer in consumer.commit(offsets=offsets, asynchronous=False):
                if answer.error is not None:
                    raise KafkaException(answer.error)
            emit("committed", offsets=after)
        except KafkaException as error:
            emit("commit_failed", error=str(error))


def security(place):
    """The configs for a listener with TLS or SASL."""
    config = {"security.protocol": place.get("protocol", "PLAINTEXT")}
    names = {
        "ca": "ssl.ca.location",
        "certificate": "ssl.certificate.location",
        "key": "ssl.key.location",
        "mechanism": "sasl.mechanism",
        "user": "sasl.username",
        "password": "sasl.password",
    }
    config |= {names[key]: value for key, value in place.items() if key in names}
    if "token" in place:
        # librdkafka checks the expiry itself, and wants a time. The server uses the time in the
        # token.
        config["oauth_cb"] = lambda _: (text_of(place["token"]), time.time() + 600)
    return config


def note_refusal(error, refusals):
    """Keeps the reason of a refusal: librdkafka asks again for as long as the request may take."""
    is_refusal = error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)
    if is_refusal or "SSL alert" in error.str():
        refusals.append(error)


def until_loaded(ask):
    """Repeats a request while the coordinator is not available or still loading. librdkafka does
    not wait for this itself."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in LOADING or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def poll(consumer):
    """The next messages. librdkafka returns broken connections as messages, too: these are reported
    as notices, and left out."""
    messages = consumer.consume(500, timeout=0.2)
    for message in messages:
        if message.error() is not None:
            emit("notice", error=str(message.error()))
    return [m for m in messages if m.error() is None]


def emit_records(event, messages):
    records = [[id_of(m.key(), m.value()), m.partition(), m.offset()] for m in messages]
    emit(event, records=records)


if __name__ == "__main__":
    main(Confluent)
