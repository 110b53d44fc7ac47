"""Configs of brokers, of one and of all, as `kafka-configs` alters and describes them."""

from harness.tool_step import Step

ONE = "--entity-type brokers --entity-name {broker}"
ALL = "--entity-type brokers --entity-default"


def set_of(whose, *configs):
    return [Step("configs", f"--alter {whose} --add-config {config}") for config in configs]


def unset_of(whose, *configs):
    return [Step("configs", f"--alter {whose} --delete-config {config}") for config in configs]


DESCRIBED = [
    Step("configs", f"--describe {ONE}"),
    Step("configs", f"--describe {ALL}"),
    Step("configs", f"--describe {ONE} --all"),
]

# For each of Kafka's groups of dynamic configs: keys that muster obeys.
OBEYED = [
    *set_of(ALL, "log.retention.ms=86400000", "max.connections.per.ip=500",
            "group.consumer.assignment.interval.ms=500", "log.cleanup.policy=[compact,delete]",
            "max.connections.per.ip.overrides=[127.0.0.2:7]", "producer.id.expiration.ms=90000000"),
    Step("topics", "--create --topic configured --partitions 1"),
    Step("configs", "--describe --entity-type topics --entity-name configured --all"),
    Step("topics", "--delete --topic configured"),
    *set_of(ONE, "log.retention.ms=3600000", "message.max.bytes=2000000",
            "log.cleaner.backoff.ms=20000,log.cleaner.min.cleanable.ratio=0.25",
            "listener.name.plaintext.max.connections=900",
            "transaction.partition.verification.enable=false"),
    *DESCRIBED,
]

REFUSED = [
    *set_of(ONE, "num.partitions=3", "group.max.size=9", "offsets.retention.minutes=9",
            "node.id=9", "log.retention.hours=9", "group.coordinator.rebalance.protocols=classic"),
    *set_of(ALL, "num.partitions=3,log.retention.ms=1", "log.retention.ms=soon",
            "log.retention.ms=", "message.max.bytes=-1", "log.cleaner.min.cleanable.ratio=2",
            "log.cleanup.policy=sometimes", "max.connections.per.ip.overrides=nowhere",
            "group.consumer.assignment.interval.ms=-1", "log.segment.bytes=1",
            "log.message.timestamp.type=Later", "producer.id.expiration.ms=0",
            "ssl.keystore.location=/nowhere",
            "listener.name.plaintext.ssl.keystore.location=/nowhere",
            "listener.name.plaintext.num.partitions=3"),
    Step("configs", "--alter --entity-type brokers --entity-name 77 "
                    "--add-config log.retention.ms=1"),
    Step("configs", "--alter --entity-type brokers --entity-name one "
                    "--add-config log.retention.ms=1"),
    *unset_of(ONE, "num.partitions", "no.such.key", "log.roll.ms"),
    *DESCRIBED,
]

# Keys that Kafka alters, and that have no effect in muster.
WITHOUT_EFFECT = [
    *set_of(ONE, "log.cleaner.threads=2", "num.io.threads=9", "compression.type=zstd",
            "no.such.key=1"),
    *set_of(ALL, "leader.replication.throttled.rate=1000", "min.insync.replicas=1",
            "unclean.leader.election.enable=true"),
    Step("configs", f"--describe {ONE}"),
    Step("configs", f"--describe {ALL}"),
    *unset_of(ONE, "log.cleaner.threads,num.io.threads,compression.type,no.such.key"),
    *unset_of(ALL, "leader.replication.throttled.rate,min.insync.replicas,"
              "unclean.leader.election.enable"),
]

RETURNED = [
    *unset_of(ONE, "log.retention.ms"),
    Step("configs", f"--describe {ONE}"),
    *unset_of(ONE, "message.max.bytes,log.cleaner.backoff.ms,log.cleaner.min.cleanable.ratio,"
              "listener.name.plaintext.max.connections,transaction.partition.verification.enable"),
    *unset_of(ALL, "log.retention.ms,max.connections.per.ip,log.cleanup.policy,"
              "group.consumer.assignment.interval.ms,max.connections.per.ip.overrides,"
              "producer.id.expiration.ms"),
    *DESCRIBED,
]

BROKER_CONFIGS = [*OBEYED, *REFUSED, *WITHOUT_EFFECT, *RETURNED]
