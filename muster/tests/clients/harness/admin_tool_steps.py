"""Steps of the tools that administer a cluster: quorum, leaders, moves, directories, features."""

from harness.tool_step import Step, WriteFile


def moves(topic, replicas):
    """A reassignment of the first partition of a topic."""
    partition = f'{{"topic": "{topic}", "partition": 0, "replicas": [{replicas}]}}'
    return f'{{"version": 1, "partitions": [{partition}]}}'


MOVES = "reassign-partitions"
TOKENS = "delegation-tokens"
ADMIN = [
    Step("metadata-quorum", "describe --status"),
    Step("metadata-quorum", "describe --replication"),
    Step("metadata-quorum", "describe --replication --human-readable"),
    Step("leader-election", "--election-type preferred --all-topic-partitions"),
    Step("leader-election", "--election-type unclean --all-topic-partitions"),
    Step("leader-election", "--election-type preferred --topic orders --partition 0"),
    Step("leader-election", "--election-type unclean --topic orders --partition 0"),
    Step("leader-election", "--election-type preferred --topic orders --partition 77"),
    Step("leader-election", "--election-type preferred --topic missing --partition 0"),
    Step("topics", "--create --topic still --replica-assignment {broker}"),
    WriteFile("stays.json", moves("still", "{broker}")),
    WriteFile("unknown.json", moves("orders", "77")),
    WriteFile("twice.json", moves("orders", "{broker}, {broker}")),
    WriteFile("topics.json", '{"version": 1, "topics": [{"topic": "still"}]}'),
    Step(MOVES, "--list"),
    Step(MOVES, "--generate --topics-to-move-json-file {dir}/topics.json --broker-list {broker}"),
    Step(MOVES, "--execute --reassignment-json-file {dir}/stays.json"),
    Step(MOVES, "--verify --reassignment-json-file {dir}/stays.json"),
    Step(MOVES, "--cancel --reassignment-json-file {dir}/stays.json"),
    Step(MOVES, "--execute --reassignment-json-file {dir}/unknown.json"),
    Step(MOVES, "--execute --reassignment-json-file {dir}/twice.json"),
    Step(MOVES, "--verify --reassignment-json-file {dir}/unknown.json"),
    Step(MOVES, "--cancel --reassignment-json-file {dir}/unknown.json"),
    Step(MOVES, "--list"),
    Step("log-dirs", "--describe --topic-list orders,stamps", per_broker=True),
    Step("log-dirs", "--describe --topic-list missing", per_broker=True),
    Step("log-dirs", "--describe --broker-list 77"),
    Step("features", "describe"),
    Step("features", "upgrade --feature share.version=2"),
    Step("features", "upgrade --feature share.version=9"),
    Step("features", "upgrade --feature no.such=1"),
    Step("features", "downgrade --feature share.version=-1"),
    Step("cluster", "list-endpoints"),
    Step("cluster", "unregister --id 77"),
    Step("cluster", "unregister-controller --id 77"),
    Step("cluster", "api-versions", per_broker=True),
    WriteFile("tokens.properties", ""),
    Step(TOKENS, "--create --max-life-time-period -1 --command-config {dir}/tokens.properties"),
    Step(TOKENS, "--create --max-life-time-period -1 --owner-principal User:alice "
                 "--command-config {dir}/tokens.properties"),
    Step(TOKENS, "--renew --renew-time-period -1 --hmac AAAA --command-config {dir}/tokens.properties"),
    Step(TOKENS, "--expire --expiry-time-period -1 --hmac AAAA --command-config {dir}/tokens.properties"),
    Step(TOKENS, "--describe --command-config {dir}/tokens.properties"),
    Step("client-metrics", "--list"),
    Step("client-metrics", "--describe --name missing"),
    Step(
        "client-metrics",
        "--alter --name slow --metrics org.apache.kafka.consumer.,org.apache.kafka.producer."
        " --interval 10000 --match client_id=a.*,client_source_port=[0-9]+",
    ),
    Step("client-metrics", "--list"),
    Step("client-metrics", "--describe"),
    Step("client-metrics", "--describe --name slow"),
    Step("configs", "--describe --all --entity-type client-metrics --entity-name slow"),
    Step("configs", "--describe --all --entity-type client-metrics --entity-name missing"),
    Step("client-metrics", "--alter --name slow --interval 5"),
    Step("client-metrics", "--alter --name slow --match client_id=["),
    Step("client-metrics", "--alter --name slow --match no.such=a"),
    Step("client-metrics", "--alter --name slow"),
    Step("client-metrics", "--describe --name slow"),
    Step("client-metrics", "--delete --name slow"),
    Step("client-metrics", "--delete --name slow"),
    Step("client-metrics", "--list"),
]
