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

    With `lines`, it continues in the background once it has printed this many lines. A command that
    prints the same for each broker is `per_broker`: equal lines count once. `into` names a file in
    `{dir}` that gets the output, too. `bootstrap` is the server's listener.
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
    """Ends the oldest command that a step with `lines` left running (SIGTERM), and waits for it."""


@dataclass(frozen=True)
class ServedCertificate:
    """Prints which certificate of `{dir}/tls` the TLS listener serves. Waits until it is the
    expected certificate, but not for ever."""

    expected: str

    def __str__(self):
        return f"served certificate: {self.expected}"


@dataclass(frozen=True)
class Log:
    """Stops the server, and prints the content of an internal topic by kafka-dump-log. For muster,
    `muster log export` writes the files; Kafka has files of its own. With `newest`, prints only the
    last record of each key, and no deleted keys, because the servers drop older records at
    different times. Only steps of this kind can follow."""

    topic: str
    decoder: str
    newest: bool = False

    def __str__(self):
        return f"dump-log --{self.decoder}"


@dataclass(frozen=True)
class WriteFile:
    """Writes a file to `{dir}` for the following steps. Its text may contain `{broker}` and
    `{dir}`."""

    name: str
    text: str
