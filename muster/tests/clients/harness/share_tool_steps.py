"""The steps of `tools` for share groups: all that Kafka's tools have about them."""

from harness.tool_step import EndBackground, Step, WriteFile

JOBS = "--topic jobs --group crew"
PRINT = ("--formatter-property print.key=true --formatter-property print.offset=true "
         "--formatter-property print.partition=true --formatter-property print.delivery=true")
ENDS = "--timeout-ms 10000"
SET = "--alter --entity-type groups --entity-name crew --add-config"
KEYED = "--reader-property parse.key=true --reader-property key.separator=:"


def records(first, last):
    return "".join(f"job{i}:work{i}\n" for i in range(first, last))


def produce(first, last, topic="jobs"):
    return Step("console-producer", f"--topic {topic} {KEYED}", records(first, last))


def earliest(group):
    return Step("configs", f"--alter --entity-type groups --entity-name {group} "
                           "--add-config share.auto.offset.reset=earliest")


LISTED = [
    Step("share-groups", "--list"),
    Step("share-groups", "--list --state"),
    Step("share-groups", "--list --state Stable"),
    Step("share-groups", "--list --state empty"),
    Step("share-groups", "--list --state stable,empty"),
    Step("share-groups", "--list --state Dead"),
    Step("share-groups", "--list --state nonsense"),
    Step("groups", "--list"),
    Step("groups", "--list --share"),
    Step("groups", "--list --group-type share"),
    Step("groups", "--list --protocol share"),
    Step("groups", "--list --consumer"),
    Step("consumer-groups", "--list"),
    Step("consumer-groups", "--list --type --state"),
    Step("consumer-groups", "--list --type share"),
]
DESCRIBED = [
    Step("share-groups", "--describe --group crew"),
    Step("share-groups", "--describe --group crew --verbose"),
    Step("share-groups", "--describe --group crew --offsets"),
    Step("share-groups", "--describe --group crew --offsets --verbose"),
    Step("share-groups", "--describe --group crew --members"),
    Step("share-groups", "--describe --group crew --members --verbose"),
    Step("share-groups", "--describe --group crew --state"),
    Step("share-groups", "--describe --group crew --state --verbose"),
    Step("share-groups", "--describe --all-groups"),
    Step("share-groups", "--describe --all-groups --members"),
    Step("share-groups", "--describe --all-groups --state"),
]
OFFSETS = Step("share-groups", "--describe --group crew --offsets --verbose")
REFUSED = [
    Step("share-groups", "--reset-offsets --group crew --topic jobs --to-earliest --execute"),
    Step("share-groups", "--reset-offsets --group crew --topic jobs --to-earliest --dry-run"),
    Step("share-groups", "--delete-offsets --group crew --topic jobs"),
    Step("share-groups", "--delete --group crew"),
]
ABSENT = [
    Step("share-groups", "--list"),
    Step("share-groups", "--describe --group absent"),
    Step("share-groups", "--describe --group absent --members"),
    Step("share-groups", "--describe --group absent --state"),
    Step("share-groups", "--describe --group absent --offsets"),
    Step("share-groups", "--delete --group absent"),
    Step("share-groups", "--delete-offsets --group absent --topic jobs"),
    Step("share-groups", "--reset-offsets --group absent --topic missing --to-latest --execute"),
    Step("share-groups", "--reset-offsets --group absent --to-latest --execute"),
    Step("share-groups", "--reset-offsets --group absent --topic jobs --to-latest"),
    Step("share-groups", "--reset-offsets --group absent --topic jobs --to-latest --dry-run"),
    Step("share-groups", "--list"),
]
CONFIGS = [
    Step("configs", "--describe --entity-type groups --entity-name crew"),
    Step("configs", f"{SET} share.auto.offset.reset=earliest,share.record.lock.duration.ms=15000,"
                    "share.delivery.count.limit=3"),
    Step("configs", f"{SET} share.heartbeat.interval.ms=600,share.session.timeout.ms=7000,"
                    "share.partition.max.record.locks=1000,share.renew.acknowledge.enable=false"),
    Step("configs", "--describe --entity-type groups --entity-name crew"),
    Step("configs", "--describe --entity-type groups --entity-name crew --all"),
    Step("configs", f"{SET} share.auto.offset.reset=by_duration:P1D"),
    Step("configs", f"{SET} share.auto.offset.reset=by_duration:soon"),
    Step("configs", f"{SET} share.auto.offset.reset=none"),
    Step("configs", f"{SET} share.isolation.level=read_committed"),
    Step("configs", f"{SET} share.isolation.level=dirty"),
    Step("configs", f"{SET} share.record.lock.duration.ms=1"),
    Step("configs", f"{SET} share.record.lock.duration.ms=1000000"),
    Step("configs", f"{SET} share.delivery.count.limit=1"),
    Step("configs", f"{SET} share.delivery.count.limit=11"),
    Step("configs", f"{SET} share.partition.max.record.locks=99"),
    Step("configs", f"{SET} share.partition.max.record.locks=4001"),
    Step("configs", f"{SET} share.heartbeat.interval.ms=1"),
    Step("configs", f"{SET} share.session.timeout.ms=1"),
    Step("configs", f"{SET} share.renew.acknowledge.enable=perhaps"),
    Step("configs", f"{SET} share.assignment.interval.ms=20000"),
    Step("configs", f"{SET} share.no.such.key=1"),
    Step("configs", f"{SET} share.auto.offset.reset=earliest"),
    Step("configs", "--alter --entity-type groups --entity-name crew --delete-config "
                    "share.record.lock.duration.ms,share.isolation.level,share.session.timeout.ms"),
    Step("configs", "--describe --entity-type groups --entity-name crew"),
]
CONSUMED = [
    Step("topics", "--create --topic jobs --partitions 1"),
    produce(0, 10),
    Step("console-share-consumer", f"{JOBS} {PRINT} --release --max-messages 10 {ENDS}"),
    OFFSETS,
    Step("console-share-consumer", f"{JOBS} {PRINT} --max-messages 10 {ENDS}"),
    OFFSETS,
    produce(10, 15),
    Step("console-share-consumer", f"{JOBS} {PRINT} --reject --max-messages 5 {ENDS}"),
    OFFSETS,
    Step("console-share-consumer", f"{JOBS} {PRINT} --timeout-ms 4000"),
    Step("console-share-consumer", f"{JOBS} --reject --release {ENDS}"),
    Step("console-share-consumer", "--topic missing-one --group crew --timeout-ms 4000"),
]
# A member runs in the background.
ALIVE = [
    produce(15, 20),
    Step("console-share-consumer", f"{JOBS} {PRINT} --command-property client.id=mate", lines=5),
    *LISTED,
    *DESCRIBED,
    *REFUSED,
    EndBackground(),
]
RESET = "--reset-offsets --group crew"
TO_AN_OFFSET = [
    Step("share-groups", f"{RESET} --topic jobs --to-offset 7 --dry-run"),
    Step("share-groups", f"{RESET} --topic jobs:0 --to-offset 7 --execute"),
    OFFSETS,
    Step("share-groups", f"{RESET} --topic jobs --to-offset 4000 --execute"),
    OFFSETS,
    Step("share-groups", f"{RESET} --topic jobs --to-offset -1 --execute"),
    Step("share-groups", f"{RESET} --topic jobs --to-offset soon --execute"),
    Step("share-groups", f"{RESET} --topic jobs --to-offset 5 --to-current --execute"),
    Step("share-groups", f"{RESET} --topic jobs --to-offset 12 --execute"),
    Step("share-groups", f"{RESET} --topic jobs --to-current --dry-run"),
    Step("share-groups", f"{RESET} --all-topics --to-current --execute"),
    Step("share-groups", f"{RESET} --topic missing --to-current --execute"),
    OFFSETS,
]
# A file that the tool has exported sets offsets again: of the same group, and of a group that does
# not exist.
FROM_FILES = [
    Step("share-groups", f"{RESET} --all-topics --to-current --dry-run --export", into="crew.csv"),
    Step("share-groups", f"{RESET} --topic jobs --to-latest --execute --export", into="latest.csv"),
    OFFSETS,
    Step("share-groups", f"{RESET} --from-file {{dir}}/crew.csv --dry-run"),
    Step("share-groups", f"{RESET} --from-file {{dir}}/crew.csv --execute"),
    OFFSETS,
    Step("share-groups", f"{RESET} --from-file {{dir}}/none.csv --execute"),
    WriteFile("strange.csv", "missing,0,3\njobs,0,3\n"),
    Step("share-groups", f"{RESET} --from-file {{dir}}/strange.csv --execute"),
    WriteFile("broken.csv", "jobs,zero,3\n"),
    Step("share-groups", f"{RESET} --from-file {{dir}}/broken.csv --execute"),
    OFFSETS,
    Step("consumer-groups", "--reset-offsets --group former --topic jobs --to-offset 6 --execute"),
    Step("consumer-groups", "--reset-offsets --group former --all-topics --to-current --dry-run "
                            "--export", into="former.csv"),
    Step("share-groups", "--reset-offsets --group successor --from-file {dir}/former.csv --execute"),
    Step("share-groups", "--describe --group successor --offsets --verbose"),
    Step("share-groups", "--delete --group successor"),
    Step("consumer-groups", "--delete --group former"),
]
EMPTY = [
    *LISTED,
    *DESCRIBED,
    Step("share-groups", "--reset-offsets --group crew --topic jobs --to-earliest --dry-run"),
    OFFSETS,
    Step("share-groups", "--reset-offsets --group crew --topic jobs --to-earliest --execute"),
    OFFSETS,
    Step("console-share-consumer", f"{JOBS} {PRINT} --max-messages 3 {ENDS}"),
    Step("share-groups", "--reset-offsets --group crew --all-topics --to-latest --dry-run"),
    Step("share-groups", "--reset-offsets --group crew --all-topics --to-latest --execute"),
    OFFSETS,
    Step("console-share-consumer", f"{JOBS} {PRINT} --timeout-ms 4000"),
    Step("share-groups", "--reset-offsets --group crew --topic jobs:0 --to-datetime "
                         "2000-01-01T00:00:00.000 --execute"),
    Step("console-share-consumer", f"{JOBS} {PRINT} --max-messages 20 {ENDS}"),
    Step("share-groups", "--reset-offsets --group crew --topic jobs --to-datetime "
                         "2090-01-01T00:00:00.000 --execute"),
    Step("share-groups", "--reset-offsets --group crew --topic jobs --to-datetime "
                         "yesterday --execute"),
    OFFSETS,
    Step("share-groups", "--reset-offsets --group crew --topic jobs:7 --to-latest --execute"),
    Step("share-groups", "--reset-offsets --group crew --topic missing --to-latest --execute"),
    Step("share-groups", "--reset-offsets --group crew --topic jobs --to-latest --to-earliest "
                         "--execute"),
    Step("share-groups", "--reset-offsets --group crew --topic jobs --execute"),
    Step("share-groups", "--reset-offsets --all-groups --topic jobs --to-latest --execute"),
    *TO_AN_OFFSET,
    *FROM_FILES,
    # Setting offsets creates the group, and adds a topic that the group did not have.
    Step("topics", "--create --topic chores --partitions 3"),
    produce(0, 9, "chores"),
    Step("share-groups", "--reset-offsets --group idle --topic chores --to-earliest --execute"),
    Step("share-groups", "--reset-offsets --group crew --topic chores:1,2 --to-latest --execute"),
    Step("share-groups", "--describe --group idle"),
    Step("share-groups", "--describe --group idle --state"),
    Step("share-groups", "--describe --group idle --members"),
    OFFSETS,
    Step("share-groups", "--describe --all-groups --offsets"),
    Step("share-groups", "--list --state"),
]
# The tools and the consumers are used with a group of the other kind: those of consumer groups with
# a share group, those of share groups with a consumer group.
KINDS = [
    Step("consumer-groups", "--describe --group crew"),
    Step("consumer-groups", "--describe --all-groups --state"),
    Step("consumer-groups", "--reset-offsets --group crew --topic jobs --to-earliest --execute"),
    Step("consumer-groups", "--delete-offsets --group crew --topic jobs"),
    Step("consumer-groups", "--delete --group idle"),
    Step("consumer-groups", "--reset-offsets --group readers-of-jobs --topic jobs --to-earliest "
                            "--execute"),
    Step("share-groups", "--describe --group readers-of-jobs"),
    Step("share-groups", "--describe --group readers-of-jobs --members"),
    Step("share-groups", "--delete --group readers-of-jobs"),
    Step("share-groups", "--delete-offsets --group readers-of-jobs --topic jobs"),
    Step("share-groups", "--reset-offsets --group readers-of-jobs --topic jobs --to-latest "
                         "--execute"),
    Step("console-share-consumer", "--topic jobs --group readers-of-jobs --timeout-ms 4000"),
    Step("console-consumer", "--topic jobs --group crew --timeout-ms 4000"),
    Step("console-consumer", "--topic jobs --group crew --timeout-ms 4000 "
                             "--command-property group.protocol=consumer"),
    Step("groups", "--list"),
    Step("consumer-groups", "--delete --group readers-of-jobs"),
]
OTHERS = [
    earliest("checkers"),
    Step("verifiable-share-consumer", "--topic jobs --group-id checkers --max-messages 20"),
    Step("verifiable-share-consumer", "--topic jobs --group-id sync-checkers --max-messages 20 "
                                      "--verbose --acknowledgement-mode sync "
                                      "--offset-reset-strategy earliest"),
    Step("verifiable-share-consumer", "--topic jobs --group-id async-checkers --max-messages 20 "
                                      "--acknowledgement-mode async "
                                      "--offset-reset-strategy earliest"),
    earliest("runners"),
    Step("share-perf", "--topic jobs --group runners --num-records 20 --hide-header"),
    Step("share-groups", "--describe --all-groups --offsets"),
    Step("share-groups", "--describe --all-groups --state"),
]
REMOVED = [
    Step("share-groups", "--delete-offsets --group crew --topic missing"),
    Step("share-groups", "--delete-offsets --group crew --topic chores"),
    Step("share-groups", "--delete-offsets --group crew --topic chores"),
    OFFSETS,
    Step("share-groups", "--delete-offsets --group crew --topic jobs --topic chores"),
    OFFSETS,
    Step("share-groups", "--list --state"),
    Step("console-share-consumer", f"{JOBS} {PRINT} --max-messages 20 {ENDS}"),
    OFFSETS,
    Step("topics", "--delete --topic chores"),
    Step("share-groups", "--describe --group idle"),
    Step("share-groups", "--delete --group idle --group absent"),
    Step("share-groups", "--delete --all-groups"),
    Step("share-groups", "--list"),
    Step("groups", "--list --share"),
    Step("configs", "--describe --entity-type groups --entity-name crew"),
    Step("share-groups", "--describe --group crew"),
    Step("topics", "--delete --topic jobs"),
    Step("topics", "--list --exclude-internal"),
]
SHARE = [
    *ABSENT, *CONFIGS, *CONSUMED, *ALIVE, *EMPTY, *KINDS, *OTHERS, *REMOVED,
]
# The log at the end: in one partition some records are done, and some are released.
SHARE_STATE = [
    Step("topics", "--create --topic kept --partitions 1"),
    earliest("keepers"),
    produce(0, 3, "kept"),
    Step("console-share-consumer", f"--topic kept --group keepers --max-messages 3 {ENDS}"),
    produce(3, 8, "kept"),
    Step("console-share-consumer", "--topic kept --group keepers --release --max-messages 5 "
                                   f"{ENDS}"),
    Step("share-groups", "--describe --group keepers --offsets --verbose"),
]
