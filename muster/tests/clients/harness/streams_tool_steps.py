"""The steps of `tools` for streams groups: all that Kafka's tools have about them."""

from harness.tool_step import EndBackground, Step

GROUP = "--group tally"
SET = "--alter --entity-type groups --entity-name tally --add-config"
KEYED = "--reader-property parse.key=true --reader-property key.separator=:"

LISTED = [
    Step("streams-groups", "--list"),
    Step("streams-groups", "--list --state"),
    Step("streams-groups", "--list --state Stable"),
    Step("streams-groups", "--list --state empty"),
    Step("streams-groups", "--list --state stable,empty"),
    Step("streams-groups", "--list --state Dead"),
    Step("streams-groups", "--list --state nonsense"),
    Step("groups", "--list"),
    Step("groups", "--list --streams"),
    Step("groups", "--list --group-type streams"),
    Step("groups", "--list --protocol streams"),
    Step("groups", "--list --consumer"),
    Step("consumer-groups", "--list"),
    Step("consumer-groups", "--list --type --state"),
    Step("consumer-groups", "--list --type streams"),
]
DESCRIBED = [
    Step("streams-groups", f"--describe {GROUP}"),
    Step("streams-groups", f"--describe {GROUP} --verbose"),
    Step("streams-groups", f"--describe {GROUP} --offsets"),
    Step("streams-groups", f"--describe {GROUP} --offsets --verbose"),
    Step("streams-groups", f"--describe {GROUP} --members"),
    Step("streams-groups", f"--describe {GROUP} --members --verbose"),
    Step("streams-groups", f"--describe {GROUP} --state"),
    Step("streams-groups", f"--describe {GROUP} --state --verbose"),
    Step("streams-groups", f"--describe {GROUP} --topology"),
    Step("streams-groups", f"--describe {GROUP} --topology --verbose"),
    Step("streams-groups", "--describe --all-groups"),
    Step("streams-groups", "--describe --all-groups --members"),
    Step("streams-groups", "--describe --all-groups --state"),
    Step("streams-groups", "--describe --all-groups --topology"),
]
OFFSETS = Step("streams-groups", f"--describe {GROUP} --offsets --verbose")
REFUSED = [
    Step("streams-groups", f"--reset-offsets {GROUP} --input-topic events --to-earliest --execute"),
    Step("streams-groups", f"--reset-offsets {GROUP} --input-topic events --to-earliest --dry-run"),
    Step("streams-groups", f"--delete-offsets {GROUP} --input-topic events"),
    Step("streams-groups", f"--delete {GROUP}"),
    Step("application-reset", "--application-id tally --input-topics events --dry-run"),
]
ABSENT = [
    Step("streams-groups", "--list"),
    Step("streams-groups", "--describe --group absent"),
    Step("streams-groups", "--describe --group absent --members"),
    Step("streams-groups", "--describe --group absent --state"),
    Step("streams-groups", "--describe --group absent --offsets"),
    Step("streams-groups", "--describe --group absent --topology"),
    Step("streams-groups", "--describe --group absent --topology --state"),
    Step("streams-groups", "--describe --all-groups --topology"),
    Step("streams-groups", "--delete --group absent"),
    Step("streams-groups", "--delete-offsets --group absent --input-topic events"),
    Step("streams-groups", "--reset-offsets --group absent --input-topic events --to-latest "
                           "--execute"),
]
CONFIGS = [
    Step("configs", "--describe --entity-type groups --entity-name tally"),
    Step("configs", f"{SET} streams.num.standby.replicas=1,streams.heartbeat.interval.ms=600"),
    Step("configs", f"{SET} streams.session.timeout.ms=7000,streams.assignment.interval.ms=0,"
                    "streams.initial.rebalance.delay.ms=10"),
    Step("configs", "--describe --entity-type groups --entity-name tally"),
    Step("configs", "--describe --entity-type groups --entity-name tally --all"),
    Step("configs", f"{SET} streams.num.standby.replicas=3"),
    Step("configs", f"{SET} streams.num.standby.replicas=-1"),
    Step("configs", f"{SET} streams.heartbeat.interval.ms=1"),
    Step("configs", f"{SET} streams.session.timeout.ms=1"),
    Step("configs", f"{SET} streams.assignment.interval.ms=20000"),
    Step("configs", f"{SET} streams.initial.rebalance.delay.ms=-1"),
    Step("configs", f"{SET} streams.no.such.key=1"),
    Step("configs", f"{SET} streams.assignor.name=sticky,streams.num.warmup.replicas=3"),
    Step("configs", f"{SET} streams.assignor.name=missing"),
    Step("configs", f"{SET} streams.rack.aware.assignment.tags=[zone,zone]"),
    Step("configs", f"{SET} streams.num.warmup.replicas=21"),
    Step("configs", f"{SET} streams.task.offset.interval.ms=1"),
    Step("configs", f"{SET} streams.acceptable.recovery.lag=-1"),
    Step("configs", "--alter --entity-type groups --entity-name tally --delete-config "
                    "streams.session.timeout.ms,streams.num.standby.replicas,"
                    "streams.num.warmup.replicas"),
    Step("configs", "--describe --entity-type groups --entity-name tally"),
]
# An application runs in the background.
ALIVE = [
    Step("topics", "--create --topic events --partitions 2"),
    Step("console-producer", f"--topic events {KEYED}", "".join(f"{i}:x\n" for i in range(20))),
    Step("streams-application", "events tally 20", lines=1),
    Step("topics", "--describe --exclude-internal"),
    *LISTED,
    *DESCRIBED,
    *REFUSED,
    EndBackground(),
]
EMPTY = [
    *LISTED,
    *DESCRIBED,
    Step("streams-groups", f"--reset-offsets {GROUP} --input-topic events --to-earliest --dry-run"),
    Step("streams-groups", f"--reset-offsets {GROUP} --all-input-topics --to-latest --dry-run"),
    Step("streams-groups", f"--reset-offsets {GROUP} --input-topic events --to-offset 1 --execute"),
    OFFSETS,
    Step("streams-groups", f"--reset-offsets {GROUP} --input-topic events:0 --shift-by 2 --execute"),
    OFFSETS,
    Step("streams-groups", f"--reset-offsets {GROUP} --input-topic events:7 --to-latest --execute"),
    Step("streams-groups", f"--reset-offsets {GROUP} --input-topic missing --to-latest --execute"),
    Step("streams-groups", f"--reset-offsets {GROUP} --input-topic events --execute"),
    Step("streams-groups", f"--reset-offsets {GROUP} --all-input-topics --to-current --dry-run --export",
         into="tally.csv"),
    Step("streams-groups", f"--reset-offsets {GROUP} --from-file {{dir}}/tally.csv --dry-run"),
    Step("streams-groups", f"--delete-offsets {GROUP} --input-topic events:1"),
    OFFSETS,
    Step("streams-groups", f"--delete-offsets {GROUP} --input-topic missing"),
    Step("consumer-groups", f"--describe {GROUP}"),
    Step("consumer-groups", f"--delete {GROUP}"),
    Step("share-groups", f"--describe {GROUP}"),
    Step("console-share-consumer", f"--topic events {GROUP} --timeout-ms 4000"),
    Step("console-consumer", f"--topic events {GROUP} --timeout-ms 4000 "
                             "--command-property group.protocol=consumer"),
    Step("application-reset", "--application-id tally --input-topics events --dry-run"),
]
REMOVED = [
    Step("streams-groups", f"--delete {GROUP}"),
    Step("streams-groups", "--list"),
    Step("topics", "--list --exclude-internal"),
    Step("streams-groups", f"--describe {GROUP}"),
    Step("streams-groups", f"--describe {GROUP} --topology"),
    Step("streams-groups", "--delete --all-groups"),
    Step("topics", "--delete --topic events"),
]
STREAMS = [*ABSENT, *CONFIGS, *ALIVE, *EMPTY, *REMOVED]
