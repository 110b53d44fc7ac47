"""The kinds of steps that `tools` runs, and the tools that they name."""

from dataclasses import dataclass

PACKAGE = "org.apache.kafka.tools."
JAVA_TOOLS = {
    "acls": PACKAGE + "AclCommand",
    "api-versions": PACKAGE + "BrokerApiVersionsCommand",
    "client-metrics": PACKAGE + "ClientMetricsCommand",
    "cluster": PACKAGE + "ClusterTool",
    "configs": PACKAGE + "ConfigCommand",
    "console-consumer": PACKAGE + "consumer.ConsoleConsumer",
    "console-producer": PACKAGE + "ConsoleProducer",
    "console-share-consumer": PACKAGE + "consumer.ConsoleShareConsumer",
    "consumer-groups": PACKAGE + "consumer.group.ConsumerGroupCommand",
    "delegation-tokens": PACKAGE + "DelegationTokenCommand",
    "delete-records": PACKAGE + "DeleteRecordsCommand",
    "dump-log": PACKAGE + "DumpLogSegments",
    "e2e-latency": PACKAGE + "EndToEndLatency",
    "features": PACKAGE + "FeatureCommand",
    "get-offsets": PACKAGE + "GetOffsetShell",
    "groups": PACKAGE + "GroupsCommand",
    "leader-election": PACKAGE + "LeaderElectionCommand",
    "log-dirs": PACKAGE + "LogDirsCommand",
    "metadata-quorum": PACKAGE + "MetadataQuorumCommand",
    "reassign-partitions": PACKAGE + "reassign.ReassignPartitionsCommand",
    "application-reset": PACKAGE + "StreamsResetter",
    "share-groups": PACKAGE + "consumer.group.ShareGroupCommand",
    "share-perf": PACKAGE + "ShareConsumerPerformance",
    "streams-application": "Tally",  # not Kafka's: adapters/java/tools
    "streams-groups": PACKAGE + "streams.StreamsGroupCommand",
    "topics": PACKAGE + "TopicCommand",
    "transaction-holder": "Holder",  # not Kafka's: adapters/java/tools
    "transactions": PACKAGE + "TransactionsCommand",
    "verifiable-share-consumer": PACKAGE + "VerifiableShareConsumer",
}


@dataclass(frozen=True)
class Step:
    """One command.

    With `lines`, it continues in the background once it has printed this many. One that prints the
    same for each broker is `per_broker`: equal lines count once. `into` names a file in `{dir}` that
    gets the output, too. `bootstrap` is the server's listener.
    """

    tool: str
    arguments: str
    stdin: str = ""
    lines: int = 0
    per_broker: bool = False
    into: str = ""
    bootstrap: str = "bootstrap"

    def __str__(self):
        return f"{self.tool} {self.arguments}"


@dataclass(frozen=True)
class EndBackground:
    """Ends (SIGTERM) the oldest that a step with `lines` left running, and waits for it."""


@dataclass(frozen=True)
class ServedCertificate:
    """Which of the certificates in `{dir}/tls` the listener with TLS shows, once it is the one that
    is expected, or has not become that for long."""

    expected: str

    def __str__(self):
        return f"served certificate: {self.expected}"


@dataclass(frozen=True)
class Log:
    """Stops the server; what kafka-dump-log reads of one of its internal topics, which comes from
    `muster log export` or is Kafka's own. With `newest` of each key the last record alone, and none of
    what is deleted: both servers drop it some time. Steps of another kind cannot follow."""

    topic: str
    decoder: str
    newest: bool = False

    def __str__(self):
        return f"dump-log --{self.decoder}"


@dataclass(frozen=True)
class WriteFile:
    """Puts a file into `{dir}` for the steps that follow. It may have `{broker}` and `{dir}`, too."""

    name: str
    text: str
