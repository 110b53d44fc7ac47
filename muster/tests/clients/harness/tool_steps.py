"""The steps of `tools`, in order, for each server: each step is one use of a command-line tool.
`{broker}` stands for the id of a broker, `{dir}` for a directory of this run."""

from harness.admin_tool_steps import ADMIN
from harness.broker_config_tool_steps import BROKER_CONFIGS
from harness.certificate_tool_steps import CERTIFICATES
from harness.secured_tool_steps import SECURED
from harness.share_tool_steps import SHARE, SHARE_STATE
from harness.streams_tool_steps import STREAMS
from harness.tool_step import PACKAGE, EndBackground, Log, Step, WriteFile

KEYED = "--reader-property parse.key=true --reader-property key.separator=:"
RECORDS = "".join(f"key{i}:value{i}\n" for i in range(30))
PRINT = "--formatter-property print.key=true --formatter-property print.partition=true"
READ_ALL = f"{PRINT} --formatter-property print.offset=true --from-beginning --timeout-ms 15000"
DELETE_RECORDS = """{"version": 1, "partitions": [
  {"topic": "orders", "partition": 0, "offset": 2},
  {"topic": "orders", "partition": 1, "offset": -1}]}"""
DELETE_TOO_MANY = """{"version": 1, "partitions": [
  {"topic": "orders", "partition": 0, "offset": 1000}]}"""

# In Kafka the first request for each kind of coordinator creates its topic. In muster these topics
# always exist.
FIRST = [
    Step("consumer-groups", "--describe --group missing"),
    Step("transactions", "describe --transactional-id missing"),
    Step("topics", "--create --topic first --partitions 1"),
    Step("share-groups", "--reset-offsets --group first --topic first --to-latest --execute"),
    Step("share-groups", "--delete --group first"),
    Step("topics", "--delete --topic first"),
]

TOPICS = [
    Step("topics", "--list"),
    Step("topics", "--list --exclude-internal"),
    Step("topics", "--describe --topic __consumer_offsets"),
    Step("topics", "--create --topic orders --partitions 3 --config retention.ms=3600000"),
    Step("topics", "--create --topic orders --partitions 3"),
    Step("topics", "--create --topic orders --partitions 3 --if-not-exists"),
    Step("topics", "--create --topic stamps --partitions 1 --replication-factor 1"),
    Step("topics", "--create --topic defaults"),
    Step("topics", "--create --topic bad,name --partitions 1"),
    Step("topics", "--create --topic nothing --partitions 0"),
    Step("topics", "--create --topic wide --partitions 1 --replication-factor 3"),
    Step("topics", "--create --topic strange --partitions 1 --config no.such.key=1"),
    Step("topics", "--create --topic strange --partitions 1 --config retention.ms=soon"),
    Step("topics", "--create --topic displaced --replica-assignment 77"),
    Step("topics", "--create --topic __consumer_offsets"),
    Step("topics", "--list --exclude-internal"),
    Step("topics", "--describe --topic orders"),
    Step("topics", "--describe --topic missing"),
    Step("topics", "--describe"),
    Step("topics", "--describe --exclude-internal --topics-with-overrides"),
    Step("topics", "--describe --unavailable-partitions"),
    Step("topics", "--alter --topic orders --partitions 5"),
    Step("topics", "--alter --topic orders --partitions 2"),
    Step("topics", "--alter --topic missing --partitions 2"),
    Step("topics", "--describe --topic orders"),
]

CONFIGS = [
    Step("configs", "--describe --entity-type topics --entity-name orders"),
    Step("configs", "--describe --entity-type topics --entity-name orders --all"),
    Step("configs", "--describe --entity-type topics --entity-name missing"),
    Step("configs", "--alter --entity-type topics --entity-name orders "
                    "--add-config segment.bytes=1048576,cleanup.policy=[compact,delete]"),
    Step("configs", "--alter --entity-type topics --entity-name orders "
                    "--delete-config retention.ms"),
    Step("configs", "--describe --entity-type topics --entity-name orders"),
    Step("configs", "--alter --entity-type topics --entity-name orders "
                    "--add-config no.such.key=1"),
    Step("configs", "--alter --entity-type topics --entity-name orders "
                    "--add-config max.message.bytes=-5"),
    Step("configs", "--alter --entity-type topics --entity-name missing "
                    "--add-config retention.ms=1000"),
    Step("configs", "--alter --entity-type topics --entity-name orders "
                    "--delete-config cleanup.policy,segment.bytes"),
    Step("configs", "--describe --entity-type topics"),
    Step("configs", "--describe --entity-type brokers --entity-name {broker}"),
    Step("configs", "--describe --entity-type brokers --entity-name {broker} --all"),
    Step("configs", "--describe --entity-type brokers --entity-name 77"),
]

RECORDS_AND_OFFSETS = [
    Step("get-offsets", "--topic orders"),
    Step("console-producer", f"--topic orders {KEYED}", RECORDS),
    Step("console-producer", "--topic stamps --request-required-acks 1", "first\n"),
    Step("console-producer", "--topic stamps --request-required-acks 0", "second\n"),
    Step("console-producer", "--topic stamps --compression-codec zstd", "third\n"),
    Step("console-producer", "--topic made-by-producer", "hello\n"),
    Step("console-consumer", f"--topic orders {READ_ALL} --max-messages 30"),
    Step("console-consumer", f"--topic stamps {READ_ALL} --max-messages 3"),
    Step("console-consumer", "--topic orders --partition 2 --offset 1 --max-messages 2"),
    Step("get-offsets", "--topic orders"),
    Step("get-offsets", "--topic orders --time earliest"),
    Step("get-offsets", "--topic orders --time latest --partitions 0,4"),
    Step("get-offsets", "--topic stamps --time max-timestamp"),
    Step("get-offsets", "--topic stamps --time 0"),
    Step("get-offsets", "--topic stamps --time 4102444800000"),
    Step("get-offsets", "--topic-partitions orders:0-2,stamps:0"),
    Step("get-offsets", "--topic missing"),
    Step("get-offsets", "--exclude-internal-topics"),
    WriteFile("delete-records.json", DELETE_RECORDS),
    Step("delete-records", "--offset-json-file {dir}/delete-records.json"),
    WriteFile("delete-too-many.json", DELETE_TOO_MANY),
    Step("delete-records", "--offset-json-file {dir}/delete-too-many.json"),
    Step("get-offsets", "--topic orders --time earliest"),
]

# The partition of the group, out of 50, follows from the group's name.
OF_FRESH = f"--partition 46 --offset earliest --formatter {PACKAGE}consumer.OffsetsMessageFormatter"
LIVE = "--group live --command-property client.id=worker --formatter-property print.key=true"
GROUPS = [
    Step("console-consumer", "--topic stamps --group billing --from-beginning --max-messages 3"),
    Step("consumer-groups", "--list"),
    Step("consumer-groups", "--list --state"),
    Step("consumer-groups", "--list --state Stable"),
    Step("consumer-groups", "--list --type"),
    Step("groups", "--list"),
    Step("consumer-groups", "--describe --group billing"),
    Step("consumer-groups", "--describe --group billing --members"),
    Step("consumer-groups", "--describe --group billing --state"),
    Step("console-consumer", f"--topic stamps {LIVE} --from-beginning", lines=3),
    Step("consumer-groups", "--list --state"),
    Step("consumer-groups", "--describe --group live --members"),
    Step("consumer-groups", "--describe --group live --members --verbose"),
    Step("consumer-groups", "--describe --group live --state"),
    Step("consumer-groups", "--describe --group live --state --verbose"),
    Step("consumer-groups", "--reset-offsets --group live --topic stamps --to-earliest --execute"),
    Step("consumer-groups", "--delete-offsets --group live --topic stamps"),
    Step("consumer-groups", "--delete --group live"),
    EndBackground(),
    Step("consumer-groups", "--describe --group live --offsets"),
    Step("consumer-groups", "--describe --all-groups --state"),
    Step("consumer-groups", "--reset-offsets --group live --topic stamps --to-earliest --dry-run"),
    Step("consumer-groups", "--describe --group live"),
    Step("consumer-groups", "--reset-offsets --group live --topic stamps --to-earliest --execute"),
    Step("consumer-groups", "--reset-offsets --group live --topic stamps:0 "
                            "--to-offset 2 --execute"),
    Step("consumer-groups", "--describe --group live"),
    Step("consumer-groups", "--reset-offsets --group live --topic stamps --shift-by -1 --execute"),
    Step("consumer-groups", "--reset-offsets --group live --topic stamps --shift-by 100 --execute"),
    Step("consumer-groups", "--reset-offsets --group live --topic stamps --to-datetime "
                            "2000-01-01T00:00:00.000 --execute"),
    Step("consumer-groups", "--reset-offsets --group live --all-topics --to-latest --execute"),
    Step("consumer-groups", "--reset-offsets --group fresh --topic orders --to-earliest --execute"),
    Step("console-consumer", f"--topic __consumer_offsets {OF_FRESH} --max-messages 5"),
    Step("consumer-groups", "--reset-offsets --group fresh --topic missing --to-latest --execute"),
    Step("consumer-groups", "--describe --group fresh"),
    Step("consumer-groups", "--delete-offsets --group fresh --topic orders:0"),
    Step("consumer-groups", "--delete-offsets --group fresh --topic missing"),
    Step("consumer-groups", "--delete-offsets --group missing --topic orders"),
    Step("consumer-groups", "--describe --group fresh"),
    Step("consumer-groups", "--delete --group fresh"),
    Step("consumer-groups", "--delete --group live --group missing"),
    Step("consumer-groups", "--list"),
]

# The group, which has only offsets, becomes a consumer group (KIP-848) with its first member. This
# member commits nothing, so that the offsets of the group are known. It reads the records that
# DELETE_RECORDS has left.
LEFT = 25
OWN_OFFSETS = "--group modern --command-property enable.auto.commit=false"
MODERN = f"{OWN_OFFSETS} --command-property group.protocol=consumer"
WORKER = f"--topic orders {MODERN} --command-property client.id=worker"
ELDER = f"--topic stamps {OWN_OFFSETS} --command-property client.id=elder --from-beginning"
REWIND = Step("consumer-groups", "--reset-offsets --group modern --topic orders --to-earliest "
                                 "--execute")
FILTERED = [
    Step("groups", "--list --group-type consumer"),
    Step("groups", "--list --protocol consumer"),
    Step("groups", "--list --consumer"),
    Step("consumer-groups", "--list"),
    Step("consumer-groups", "--list --type consumer"),
    Step("consumer-groups", "--list --type classic --state"),
    Step("consumer-groups", "--list --state stable"),
    Step("consumer-groups", "--list --state stable,empty --type consumer"),
]
NOTHING_FOUND = [
    Step("groups", "--list --group-type nonsense"),
    Step("groups", "--list --share"),
    Step("groups", "--list --streams"),
    Step("consumer-groups", "--list --type nonsense"),
    Step("consumer-groups", "--list --type share"),
    Step("consumer-groups", "--list --state nonsense"),
    Step("consumer-groups", "--list --state reconciling,assigning"),
]
DESCRIBED = [
    Step("groups", "--list"),
    Step("consumer-groups", "--list --type --state"),
    Step("consumer-groups", "--describe --group modern"),
    Step("consumer-groups", "--describe --group modern --offsets --verbose"),
    Step("consumer-groups", "--describe --group modern --members"),
    Step("consumer-groups", "--describe --group modern --members --verbose"),
    Step("consumer-groups", "--describe --group modern --state"),
    Step("consumer-groups", "--describe --group modern --state --verbose"),
]
REFUSED = [
    REWIND,
    Step("consumer-groups", "--delete-offsets --group modern --topic orders"),
    Step("consumer-groups", "--delete-offsets --group modern --topic made-by-producer"),
    Step("consumer-groups", "--delete --group modern"),
]
CONSUMER_GROUPS = [
    REWIND,
    Step("groups", "--list"),
    Step("console-consumer", WORKER, lines=LEFT),
    *DESCRIBED,
    *FILTERED,
    *NOTHING_FOUND,
    Step("consumer-groups", "--describe --all-groups --state"),
    *REFUSED,
    EndBackground(),
    *FILTERED,
    *DESCRIBED,
    Step("consumer-groups", "--reset-offsets --group modern --topic orders --to-latest --dry-run"),
    Step("consumer-groups", "--reset-offsets --group modern --topic orders:2,3 --to-offset 4 "
                            "--execute"),
    Step("consumer-groups", "--reset-offsets --group modern --topic orders --to-current "
                            "--dry-run --export"),
    Step("consumer-groups", "--reset-offsets --group modern --topic missing --to-latest --execute"),
    Step("consumer-groups", "--reset-offsets --all-groups --all-topics --to-earliest --dry-run"),
    Step("consumer-groups", "--describe --group modern"),
    Step("consumer-groups", "--delete-offsets --group modern --topic orders:0,4"),
    Step("consumer-groups", "--delete-offsets --group modern --topic missing"),
    Step("consumer-groups", "--describe --group modern"),
]
# One member of each protocol. When the member of the new protocol leaves, the group becomes a
# classic group.
MIXED_GROUP = [
    REWIND,
    Step("console-consumer", WORKER, lines=LEFT),
    Step("console-consumer", ELDER, lines=3),
    *DESCRIBED,
    *REFUSED,
    Step("consumer-groups", "--delete-offsets --group modern --topic stamps"),
    EndBackground(),
    *DESCRIBED,
    *REFUSED,
    EndBackground(),
    Step("consumer-groups", "--describe --group modern --state"),
]

SET_GROUP = "--alter --entity-type groups --entity-name modern --add-config"
GROUP_CONFIGS = [
    Step("configs", "--describe --entity-type groups --entity-name modern"),
    Step("configs", "--describe --entity-type groups --entity-name modern --all"),
    Step("configs", f"{SET_GROUP} consumer.session.timeout.ms=7000,"
                    "consumer.heartbeat.interval.ms=600"),
    Step("configs", "--describe --entity-type groups --entity-name modern"),
    Step("configs", "--describe --entity-type groups --entity-name modern --all"),
    Step("configs", "--describe --entity-type groups"),
    Step("configs", f"{SET_GROUP} consumer.session.timeout.ms=soon"),
    Step("configs", f"{SET_GROUP} consumer.session.timeout.ms=1"),
    Step("configs", f"{SET_GROUP} consumer.session.timeout.ms=90000"),
    Step("configs", f"{SET_GROUP} consumer.heartbeat.interval.ms=1"),
    Step("configs", f"{SET_GROUP} consumer.heartbeat.interval.ms=8000"),
    Step("configs", f"{SET_GROUP} consumer.heartbeat.interval.ms="),
    Step("configs", f"{SET_GROUP} no.such.key=1"),
    Step("configs", f"{SET_GROUP} retention.ms=1000"),
    Step("configs", "--alter --entity-type groups --entity-name modern "
                    "--delete-config consumer.session.timeout.ms"),
    Step("configs", "--alter --entity-type groups --entity-name modern "
                    "--delete-config consumer.session.timeout.ms"),
    Step("configs", "--alter --entity-type groups --entity-name modern "
                    "--delete-config no.such.key"),
    Step("configs", "--alter --entity-type groups --entity-name absent "
                    "--add-config consumer.session.timeout.ms=8000"),
    Step("configs", "--describe --entity-type groups --entity-name absent"),
    Step("configs", "--describe --entity-type groups --entity-name nowhere"),
    Step("configs", "--describe --entity-type groups"),
    Step("groups", "--list"),
    Step("configs", "--alter --entity-type brokers --entity-name {broker} "
                    "--add-config group.consumer.session.timeout.ms=7000"),
    Step("consumer-groups", "--delete --group modern"),
    Step("configs", "--describe --entity-type groups --entity-name modern"),
    Step("groups", "--list"),
]

FORMAT = "%t %p %o %k %s\\n"
KCAT = [
    Step("kcat", "-L", per_broker=True),
    Step("kcat", "-L -t orders", per_broker=True),
    Step("kcat", "-P -t orders -p 4 -K :", "kcat:hello\n"),
    Step("kcat", f"-C -t orders -o beginning -e -f '{FORMAT}'"),
    Step("kcat", "-Q -t stamps:0:-1"),
    Step("kcat", "-Q -t stamps:0:-2"),
    Step("kcat", "-Q -t stamps:0:1"),
    Step("kcat", f"-G readers -X auto.offset.reset=earliest -c 3 -f '{FORMAT}' stamps"),
    Step("consumer-groups", "--describe --group readers"),
    Step("kcat", "-P -t __consumer_offsets -p 0", "not for clients\n"),
    Step("kcat", f"-G readers -X auto.offset.reset=earliest -c 26 -f '{FORMAT}' orders"),
    Step("consumer-groups", "--delete --group readers"),
]

HELD = "--transactional-id held"
LEDGER = "--topic ledger --partition 0"
READ_COMMITTED = f"--topic ledger --isolation-level read_committed {READ_ALL}"
LOOK_AT_HELD = [
    Step("transactions", "list"),
    Step("transactions", f"describe {HELD}"),
    Step("transactions", f"describe-producers {LEDGER}"),
    Step("transactions", f"find-hanging {LEDGER} --max-transaction-timeout 0"),
    Step("consumer-groups", "--describe --group ledgers"),
]
# A transaction is held open. First one of its partitions is aborted, as for a hanging transaction,
# and then all of it. A second transaction is held, and loses to a successor with its id, which
# commits. A third transaction aborts.
TRANSACTIONS = [
    Step("transactions", "list"),
    Step("transactions", "describe --transactional-id missing"),
    Step("transactions", "forceTerminateTransaction --transactionalId missing"),
    Step("topics", "--create --topic ledger --partitions 2"),
    Step("transactions", f"describe-producers {LEDGER}"),
    Step("transaction-holder", "held ledger ledgers open", lines=1),
    *LOOK_AT_HELD,
    Step("transactions", "list --duration-filter 3600000"),
    Step("transactions", "list --transactional-id-pattern he.d"),
    Step("transactions", "list --transactional-id-pattern other.*"),
    Step("transactions", "list --transactional-id-pattern ["),
    Step("transactions", "describe-producers --topic ledger --partition 1"),
    Step("transactions", "find-hanging"),
    Step("transactions", "find-hanging --topic ledger"),
    Step("transactions", "find-hanging --broker-id {broker} --max-transaction-timeout 0"),
    Step("transactions", "find-hanging --topic missing"),
    Step("transactions", f"abort {LEDGER} --start-offset 1"),
    Step("transactions", f"abort {LEDGER} --start-offset 0"),
    *LOOK_AT_HELD,
    Step("transactions", f"abort {LEDGER} --start-offset 0"),
    Step("transactions", "forceTerminateTransaction --transactionalId held"),
    *LOOK_AT_HELD,
    Step("transactions", "forceTerminateTransaction --transactionalId held"),
    EndBackground(),
    Step("transaction-holder", "held ledger ledgers open", lines=1),
    *LOOK_AT_HELD,
    Step("transaction-holder", "held ledger ledgers commit"),
    *LOOK_AT_HELD,
    EndBackground(),
    Step("transaction-holder", "held ledger ledgers abort"),
    Step("transaction-holder", "other ledger ledgers commit"),
    *LOOK_AT_HELD,
    Step("transactions", "describe --transactional-id other"),
    Step("transactions", "list --transactional-id-pattern other.*"),
    Step("console-consumer", READ_COMMITTED),
    Step("get-offsets", "--topic ledger"),
    Step("topics", "--delete --topic ledger"),
    Step("consumer-groups", "--delete --group ledgers"),
]

END = [
    Step("topics", "--delete --topic orders"),
    Step("topics", "--delete --topic missing"),
    Step("topics", "--delete --topic missing --if-exists"),
    Step("topics", "--list --exclude-internal"),
    Step("consumer-groups", "--describe --group billing"),
    Step("topics", "--delete --topic __consumer_offsets"),
    Step("api-versions", "", per_broker=True),
    Step("features", "describe"),
    Step("topics", "--create --topic placed --replica-assignment {broker},{broker}"),
]

ALICE = "--allow-principal User:alice"
ACLS = [
    Step("acls", "--list"),
    Step("acls", f"--add {ALICE} --consumer --topic orders --group billing"),
    Step("acls", f"--add {ALICE} --producer --topic orders --transactional-id tx"),
    Step("acls", f"--add {ALICE} --operation Read --topic log- --resource-pattern-type prefixed"),
    Step("acls", f"--add {ALICE} --allow-host 192.0.2.7 --operation Alter --cluster"),
    Step("acls", "--add --deny-principal User:bob --deny-host 192.0.2.7 --operation All --topic '*'"),
    Step("acls", "--add --allow-principal User:* --operation Describe --group '*'"),
    Step("acls", f"--add {ALICE} --operation Read --cluster"),
    Step("acls", f"--add {ALICE} --operation Alter --delegation-token t"),
    Step("acls", "--list"),
    Step("acls", "--list --topic orders"),
    Step("acls", "--list --topic log-1 --resource-pattern-type match"),
    Step("acls", "--list --principal User:bob"),
    Step("acls", f"--remove --force {ALICE} --operation Read --topic orders"),
    Step("acls", "--remove --force --group billing"),
    Step("acls", "--remove --force --topic log- --resource-pattern-type any"),
    Step("acls", "--list"),
]

USERS = [
    Step("configs", "--describe --entity-type users"),
    Step("configs", "--alter --entity-type users --entity-name alice "
         "--add-config SCRAM-SHA-256=[iterations=8192,password=secret],SCRAM-SHA-512=[password=s]"),
    Step("configs", "--alter --entity-type users --entity-name bob "
         "--add-config SCRAM-SHA-512=[iterations=1,password=secret]"),
    Step("configs", "--alter --entity-type users --entity-name bob --delete-config SCRAM-SHA-256"),
    Step("configs", "--describe --entity-type users"),
    Step("configs", "--describe --entity-type users --entity-name alice"),
    Step("configs", "--alter --entity-type users --entity-name alice "
         "--delete-config SCRAM-SHA-256"),
    Step("configs", "--describe --entity-type users --entity-name alice"),
]

QUOTAS = [
    Step("configs", "--alter --entity-type users --entity-name alice "
         "--add-config producer_byte_rate=1048576,request_percentage=50"),
    Step("configs", "--alter --entity-type clients --entity-default "
         "--add-config consumer_byte_rate=4194304"),
    Step("configs", "--alter --entity-type users --entity-name alice --entity-type clients "
         "--entity-name app --add-config controller_mutation_rate=2.5"),
    Step("configs", "--alter --entity-type ips --entity-name 192.0.2.7 "
         "--add-config connection_creation_rate=5"),
    Step("configs", "--alter --entity-type ips --entity-default "
         "--add-config connection_creation_rate=500000"),
    Step("configs", "--describe --entity-type users"),
    Step("configs", "--describe --entity-type clients"),
    Step("configs", "--describe --entity-type ips"),
    Step("configs", "--describe --entity-type users --entity-type clients"),
    Step("configs", "--describe --entity-type users --entity-name alice --entity-type clients"),
    Step("configs", "--alter --entity-type users --entity-name alice "
         "--add-config producer_byte_rate=0"),
    Step("configs", "--alter --entity-type users --entity-name alice "
         "--add-config producer_byte_rate=1.5"),
    Step("configs", "--alter --entity-type ips --entity-name 192.0.2.7 "
         "--add-config producer_byte_rate=1"),
    Step("configs", "--alter --entity-type users --entity-name alice "
         "--delete-config producer_byte_rate"),
    Step("configs", "--describe --entity-type users --entity-name alice"),
    Step("configs", "--alter --entity-type ips --entity-default "
         "--delete-config connection_creation_rate"),
    Step("configs", "--alter --entity-type clients --entity-default "
         "--delete-config consumer_byte_rate"),
    Step("configs", "--describe --entity-type clients"),
]

PARTS = {
    "first": FIRST,
    "topics": TOPICS,
    "configs": CONFIGS,
    "broker-configs": BROKER_CONFIGS,
    "certificates": CERTIFICATES,
    "records": RECORDS_AND_OFFSETS,
    "groups": GROUPS,
    "consumer-groups": CONSUMER_GROUPS,
    "mixed-group": MIXED_GROUP,
    "group-configs": GROUP_CONFIGS,
    "kcat": KCAT,
    "transactions": TRANSACTIONS,
    "share": SHARE,
    "share-state": SHARE_STATE,
    "streams": STREAMS,
    "acls": ACLS,
    "secured": SECURED,
    "users": USERS,
    "quotas": QUOTAS,
    "admin": ADMIN,
    "end": END,
    "transaction-log": [Log("__transaction_state", "transaction-log-decoder")],
    "share-log": [Log("__share_group_state", "share-group-state-decoder", newest=True)],
}
