"""A share consumer of confluent-kafka (librdkafka)."""

import time

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer

from protocol import emit, id_of

PAUSE_SECONDS = 0.2
COMMIT_SECONDS = 20
MAX_POLL_RECORDS = 50
TYPES = {
    "accept": AcknowledgeType.ACCEPT,
    "release": AcknowledgeType.RELEASE,
    "reject": AcknowledgeType.REJECT,
}


class Sharer:
    """One member of a share group. It reports the records that it acquires with the planned
    acknowledgements, and then the server's confirmations. harness/share.py lists the words of its
    option."""

    def __init__(self, config, topic, option):
        self.words = option.split("-")
        self.asked = set()  # pairs of partition and offset
        self.consumer = ShareConsumer({
            **config,
            "max.poll.records": MAX_POLL_RECORDS,
            "share.acknowledgement.mode": "explicit" if self.explicit else "implicit",
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
        })
        self.consumer.set_acknowledgement_commit_callback(self.answered)
        self.consumer.subscribe([topic])

    @property
    def explicit(self):
        return "explicit" in self.words

    def run(self, leaving):
        while not leaving.is_set():
            try:
                self.work(self.poll(), leaving)
            except KafkaException as error:
                emit("notice", error=str(error))
        self.consumer.close()

    def poll(self):
        found = []
        for message in self.consumer.poll(PAUSE_SECONDS):
            if message.error() is not None:
                emit("notice", error=str(message.error()))
            else:
                found.append(message)
        return found

    def work(self, messages, leaving):
        if not messages:
            return
        if "hold" in self.words:
            self.say(messages, lambda _: "hold")
            while not leaving.is_set():
                time.sleep(PAUSE_SECONDS)
            self.acknowledge(messages, lambda _: "accept")
        else:
            self.acknowledge(messages, self.verdict)

    def acknowledge(self, messages, verdict):
        self.say(messages, verdict)
        self.asked |= {(m.partition(), m.offset()) for m in messages}
        if self.explicit:
            for m in messages:
                self.consumer.acknowledge(m, TYPES[verdict(m)])
            self.consumer.commit_sync(float(COMMIT_SECONDS))

    def verdict(self, message):
        """The acknowledgement of a record. It depends on the id of the record and on its delivery
        count."""
        record_id = id_of(message.key(), message.value())
        if not self.explicit:
            return "accept"
        if record_id % 10 == 0:
            return "reject"
        first = record_id % 10 == 1 and message.delivery_count() == 1
        return "release" if first or record_id % 50 == 2 else "accept"

    def answered(self, offsets, error):
        places = [
            [partition.partition, offset]
            for partition, all_of_it in offsets.items()
            for offset in all_of_it
            if (partition.partition, offset) in self.asked
        ]
        self.asked -= {tuple(place) for place in places}
        if places and error is None:
            emit("confirmed", records=places)
        elif places:
            emit("refused", records=places, error=str(error))

    def say(self, messages, verdict):
        emit("acquired", records=[
            [id_of(m.key(), m.value()), m.partition(), m.offset(), m.delivery_count(), verdict(m)]
            for m in messages
        ])
