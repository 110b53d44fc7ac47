"""aiokafka behind the adapter protocol."""

import asyncio

import aiokafka
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError
from aiokafka.helpers import create_ssl_context

from protocol import ABORTED, COMMITTED, chunks, emit, id_of, key_of, main, text_of, value_of

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Aiokafka:
    def __init__(self, place, option, session_ms):
        self.common = {"bootstrap_servers": place["bootstrap"], **security(place)}
        self.topic, self.group = place["topic"], place["group"]
        self.option, self.session_ms = option, session_ms
        self.loop = asyncio.new_event_loop()
        self.producer = None

    def create(self, partitions):
        self._run(self._admin(lambda a: a.create_topics([NewTopic(self.topic, partitions, 1)])))
        emit("created")

    def produce(self, first, count):
        self._run(self._produce(first, count))
        emit("produced")

    async def _produce(self, first, count):
        if self.producer is None:
            compression = None if self.option == "none" else self.option
            self.producer = aiokafka.AIOKafkaProducer(
                **self.common, acks="all", compression_type=compression
            )
            await self.producer.start()
        for ids in chunks(first, count):
            await self._produce_chunk(ids)

    async def _produce_chunk(self, ids):
        sent = [
            (i, await self.producer.send(self.topic, key=key_of(i), value=value_of(i)))
            for i in ids
        ]
        acked = []
        for record_id, future in sent:
            try:
                metadata = await future
                acked.append([record_id, metadata.partition, metadata.offset])
            except KafkaError as error:
                emit("failed", id=record_id, error=repr(error))
        emit("acked", records=acked)

    def transact(self):
        topic, group = self.topic + "-transactions", self.group + "-transactions"
        self._run(self._transact(topic, group))
        ids = self._run(self._read_committed(topic))
        found = {}
        while not found:
            found = self._run(self._admin(lambda a: a.list_consumer_group_offsets(group)))
        emit("transacted", ids=ids, offset=found[aiokafka.TopicPartition(topic, 0)].offset)

    async def _transact(self, topic, group):
        producer = aiokafka.AIOKafkaProducer(**self.common, transactional_id=self.group)
        await producer.start()
        for ids, end in (
            (ABORTED, producer.abort_transaction),
            (COMMITTED, producer.commit_transaction),
        ):
            await producer.begin_transaction()
            for i in ids:
                await producer.send_and_wait(topic, key=key_of(i), value=value_of(i))
            offsets = {aiokafka.TopicPartition(topic, 0): ids.stop}
            await producer.send_offsets_to_transaction(offsets, group)
            await end()
        await producer.stop()

    async def _read_committed(self, topic):
        consumer = aiokafka.AIOKafkaConsumer(
            **self.common, enable_auto_commit=False, isolation_level="read_committed"
        )
        await consumer.start()
        await consumer._client.add_topic(topic)
        partition = aiokafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        ids = []
        while len(ids) < len(COMMITTED):
            for records in (await consumer.getmany(timeout_ms=500)).values():
                ids += [id_of(r.key, r.value) for r in records]
        await consumer.stop()
        return ids

    def committed(self):
        # aiokafka ignores the error of a whole OffsetFetch answer: a coordinator that is still
        # loading looks like a group without offsets. DescribeGroups shows that it has loaded.
        while self._describe()[0] != 0:
            self._run(asyncio.sleep(0.1))
        found = self._run(self._admin(lambda a: a.list_consumer_group_offsets(self.group)))
        emit("offsets", offsets={tp.partition: o.offset for tp, o in found.items()})

    def group_state(self):
        _, _, state, _, protocol, members, *_ = self._describe()
        emit("group", state=state, protocol=protocol, members=len(members))

    def _describe(self):
        [answer] = self._run(self._admin(lambda a: a.describe_consumer_groups([self.group])))
        [group] = answer.groups
        return group

    def dump(self):
        self._run(self._dump())
        emit("dumped")

    async def _dump(self):
        consumer = aiokafka.AIOKafkaConsumer(**self.common, enable_auto_commit=False)
        await consumer.start()
        # This client knows a topic's partitions only once something asks for the topic.
        await consumer._client.add_topic(self.topic)
        partitions = sorted(consumer.partitions_for_topic(self.topic))
        assigned = [aiokafka.TopicPartition(self.topic, p) for p in partitions]
        consumer.assign(assigned)
        await consumer.seek_to_beginning(*assigned)
        ends = await consumer.end_offsets(assigned)
        while any([await consumer.position(tp) < end for tp, end in ends.items()]):
            for records in (await consumer.getmany(timeout_ms=500)).values():
                emit_records("log", records)
        await consumer.stop()

    def close(self):
        if self.producer is not None:
            self._run(self.producer.stop())

    def consume(self, leaving):
        self._run(self._consume(leaving))

    async def _consume(self, leaving):
        consumer = aiokafka.AIOKafkaConsumer(
            **self.common,
            group_id=self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=500,
            partition_assignment_strategy=[ASSIGNORS[self.option]],
        )
        consumer.subscribe([self.topic], listener=Listener())
        await consumer.start()
        while not leaving.is_set():
            batches = await consumer.getmany(timeout_ms=200)
            for records in batches.values():
                emit_records("records", records)
            await commit(consumer, batches)
        await consumer.stop()

    async def _admin(self, ask):
        admin = AIOKafkaAdminClient(**self.common)
        await admin.start()
        try:
            return await ask(admin)
        finally:
            await admin.close()

    def _run(self, task):
        return self.loop.run_until_complete(task)


def security(place):
    """The configs for a listener with TLS or SASL."""
    config = {"security_protocol": place.get("protocol", "PLAINTEXT")}
    names = {
        "mechanism": "sasl_mechanism",
        "user": "sasl_plain_username",
        "password": "sasl_plain_password",
    }
    config |= {names[key]: value for key, value in place.items() if key in names}
    if "ca" in place:
        config["ssl_context"] = create_ssl_context(
            cafile=place["ca"], certfile=place.get("certificate"), keyfile=place.get("key")
        )
    if "token" in place:
        config["sasl_oauth_token_provider"] = TokenProvider(place["token"])
    return config


class TokenProvider(AbstractTokenProvider):
    def __init__(self, path):
        self.path = path

    async def token(self):
        return text_of(self.path)


async def commit(consumer, batches):
    """Commits the records that were just printed. Reports the commit once the coordinator has
    answered."""
    offsets = {tp: records[-1].offset + 1 for tp, records in batches.items()}
    if not offsets:
        return
    try:
        await consumer.commit(offsets)
        emit("committed", offsets={tp.partition: offset for tp, offset in offsets.items()})
    except (KafkaError, ValueError) as error:  # ValueError: the partition was just taken away
        emit("commit_failed", error=repr(error))


def emit_records(event, records):
    emit(event, records=[[id_of(r.key, r.value), r.partition, r.offset] for r in records])


class Listener(aiokafka.ConsumerRebalanceListener):
    async def on_partitions_assigned(self, assigned):
        emit("assigned", partitions=[tp.partition for tp in assigned])

    async def on_partitions_revoked(self, revoked):
        emit("revoked", partitions=[tp.partition for tp in revoked])


if __name__ == "__main__":
    main(Aiokafka)
