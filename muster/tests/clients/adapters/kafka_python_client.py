"""kafka-python behind the adapter protocol."""

import time

import kafka
from kafka.admin import NewTopic
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from protocol import ABORTED, COMMITTED, chunks, emit, id_of, key_of, main, text_of, value_of

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}

# Assume that a leader begins a rebalance because a topic has changed, and that the time of a poll
# is over between the leader's assignment and the answer to its SyncGroup. Then kafka-python 3.0.12
# considers itself joined, and never sends a heartbeat again. A poll that has just begun does not
# end at that point.
POLL_MS = 2000
REFUSED_MS = 2000


class KafkaPython:
    def __init__(self, place, option, session_ms):
        self.common = {
            "bootstrap_servers": place["bootstrap"],
            "reconnect_backoff_max_ms": 1000,
            **security(place),
        }
        self.topic, self.group = place["topic"], place["group"]
        self.option, self.session_ms = option, session_ms
        self.producer = None

    def create(self, partitions):
        self._admin(lambda admin: admin.create_topics([NewTopic(self.topic, partitions, 1)]))
        emit("created")

    def produce(self, first, count):
        if self.producer is None:
            compression = None if self.option == "none" else self.option
            self.producer = kafka.KafkaProducer(**self.common, compression_type=compression)
        for ids in chunks(first, count):
            self._produce_chunk(ids)
        emit("produced")

    def transact(self):
        topic, group = self.topic + "-transactions", self.group + "-transactions"
        producer = kafka.KafkaProducer(**self.common, transactional_id=self.group)
        producer.init_transactions()
        for ids, end in (
            (ABORTED, producer.abort_transaction),
            (COMMITTED, producer.commit_transaction),
        ):
            producer.begin_transaction()
            for future in [producer.send(topic, key=key_of(i), value=value_of(i)) for i in ids]:
                future.get(60)
            offset = kafka.structs.OffsetAndMetadata(ids.stop, "", -1)
            producer.send_offsets_to_transaction({kafka.TopicPartition(topic, 0): offset}, group)
            end()
        producer.close()
        emit("transacted", ids=self._read_committed(topic), offset=self._offset(topic, group))

    def _offset(self, topic, group):
        consumer = kafka.KafkaConsumer(**self.common, group_id=group, enable_auto_commit=False)
        offset = None
        while offset is None:
            offset = consumer.committed(kafka.TopicPartition(topic, 0))
        consumer.close()
        return offset

    def _read_committed(self, topic):
        consumer = kafka.KafkaConsumer(
            **self.common, enable_auto_commit=False, isolation_level="read_committed"
        )
        partition = kafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        ids = []
        while len(ids) < len(COMMITTED):
            for records in consumer.poll(timeout_ms=500).values():
                ids += [id_of(r.key, r.value) for r in records]
        consumer.close()
        return ids

    def _produce_chunk(self, ids):
        sent = [
            (i, self.producer.send(self.topic, key=key_of(i), value=value_of(i))) for i in ids
        ]
        acked = []
        for record_id, future in sent:
            try:
                metadata = future.get(timeout=120)
                acked.append([record_id, metadata.partition, metadata.offset])
            except KafkaError as error:
                emit("failed", id=record_id, error=repr(error))
        emit("acked", records=acked)

    def committed(self):
        found = self._admin(lambda admin: admin.list_group_offsets({self.group: None}))
        offsets = found[self.group]
        emit("offsets", offsets={tp.partition: o.offset for tp, o in offsets.items()})

    def group_state(self):
        found = self._admin(lambda admin: admin.describe_groups([self.group]))[self.group]
        emit(
            "group",
            state=found["group_state"],
            protocol=found["protocol_data"],
            members=len(found["members"]),
        )

    def _admin(self, ask):
        """Repeats a request until its answer is no retriable error, because this admin client does
        not retry itself."""
        admin = kafka.KafkaAdminClient(**self.common)
        deadline = time.monotonic() + 20
        try:
            while True:
                try:
                    return ask(admin)
                except KafkaError as error:
                    if not error.retriable or time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)
        finally:
            admin.close()

    def dump(self):
        consumer = kafka.KafkaConsumer(**self.common, enable_auto_commit=False)
        partitions = sorted(consumer.partitions_for_topic(self.topic))
        assigned = [kafka.TopicPartition(self.topic, p) for p in partitions]
        consumer.assign(assigned)
        consumer.seek_to_beginning(*assigned)
        ends = consumer.end_offsets(assigned)
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            for records in consumer.poll(timeout_ms=500).values():
                emit_records("log", records)
        consumer.close()
        emit("dumped")

    def close(self):
        if self.producer is not None:
            self.producer.close()

    def consume(self, leaving):
        consumer = kafka.KafkaConsumer(
            **self.common,
            group_id=self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=500,
            partition_assignment_strategy=[ASSIGNORS[self.option]],
        )
        consumer.subscribe([self.topic], listener=Listener())
        while not leaving.is_set():
            batches = consumer.poll(timeout_ms=POLL_MS)
            for records in batches.values():
                emit_records("records", records)
            commit(consumer, batches)
        consumer.close()


def security(place):
    """The configs for a listener with TLS or SASL."""
    config = {"security_protocol": place.get("protocol", "PLAINTEXT")}
    names = {
        "ca": "ssl_cafile",
        "certificate": "ssl_certfile",
        "key": "ssl_keyfile",
        "mechanism": "sasl_mechanism",
        "user": "sasl_plain_username",
        "password": "sasl_plain_password",
    }
    config |= {names[key]: value for key, value in place.items() if key in names}
    if "protocol" in place:
        # The client repeats a refused request until this time is over.
        config["bootstrap_timeout_ms"] = REFUSED_MS
    if "token" in place:
        config["sasl_oauth_token_provider"] = TokenProvider(place["token"])
    return config


class TokenProvider(AbstractTokenProvider):
    def __init__(self, path):
        self.path = path

    def token(self):
        return text_of(self.path)


def commit(consumer, batches):
    """Commits the records that were just printed. Reports the commit once the coordinator has
    answered."""
    offsets = {
        tp: kafka.OffsetAndMetadata(records[-1].offset + 1, "", -1)
        for tp, records in batches.items()
    }
    if not offsets:
        return
    try:
        consumer.commit(offsets)
        emit("committed", offsets={tp.partition: o.offset for tp, o in offsets.items()})
    except KafkaError as error:
        emit("commit_failed", error=repr(error))


def emit_records(event, records):
    emit(event, records=[[id_of(r.key, r.value), r.partition, r.offset] for r in records])


class Listener(kafka.ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned):
        emit("assigned", partitions=[tp.partition for tp in assigned])

    def on_partitions_revoked(self, revoked):
        emit("revoked", partitions=[tp.partition for tp in revoked])

    def on_partitions_lost(self, lost):
        emit("revoked", partitions=[tp.partition for tp in lost])


if __name__ == "__main__":
    main(KafkaPython)
