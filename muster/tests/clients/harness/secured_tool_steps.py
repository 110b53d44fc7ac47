"""The tools on listeners with TLS, client certificates and passwords. If a command is denied, the
tool prints Kafka's message."""

from harness.servers import PLAIN_MODULE
from harness.tool_servers import PASSWORD, USER
from harness.tool_step import Step, WriteFile

TOPIC, GROUP = "guarded", "guards"
#: The principal of the certificate `client`.
CERTIFIED = "User:CN=client"
NAMED = f"User:{USER}"
OPTION_BEFORE_SUBCOMMAND = ("features", "metadata-quorum", "transactions")

TRUSTING = """\
ssl.truststore.type=PEM
ssl.truststore.location={dir}/tls/ca.pem
"""
BY_TLS = f"security.protocol=SSL\n{TRUSTING}"
BY_CERTIFICATE = f"{BY_TLS}ssl.keystore.type=PEM\nssl.keystore.location={{dir}}/tls/client.pem\n"


def by_password(password):
    return (
        f"security.protocol=SASL_SSL\n{TRUSTING}sasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN_MODULE} required username="{USER}" password="{password}";\n'
    )


class As:
    """Tools that run as one user: the listener, and the file with the configs of the client."""

    def __init__(self, name, bootstrap, text):
        self.name, self.bootstrap, self.text = name, bootstrap, text

    def file(self):
        return WriteFile(f"{self.name}.properties", self.text)

    def step(self, tool, arguments, stdin=""):
        option = f"--command-config {{dir}}/{self.name}.properties"
        before = tool in OPTION_BEFORE_SUBCOMMAND
        arguments = f"{option} {arguments}" if before else f"{arguments} {option}"
        return Step(tool, arguments, stdin, bootstrap=self.bootstrap)

    def steps(self, *commands):
        return [self.step(*command) for command in commands]


ANYONE = As("anyone", "tls", BY_TLS)
HOLDER = As("holder", "tls", BY_CERTIFICATE)
MEMBER = As("member", "passwords", by_password(PASSWORD))
IMPOSTOR = As("impostor", "passwords", by_password("wrong"))
DISTRUSTFUL = As("distrustful", "tls", BY_TLS.replace("ca.pem", "stranger.pem"))
#: A client that gets no reason does not give up by itself.
SOON = "request.timeout.ms=5000\ndefault.api.timeout.ms=5000\n"
MISTAKEN = As("mistaken", "passwords", BY_TLS + SOON)

#: Commands that need ACLs of the cluster, of a topic, of a group.
OF_CLUSTER = [
    ("acls", "--list"),
    ("client-metrics", "--list"),
    ("cluster", "cluster-id"),
    ("configs", "--describe --entity-type users"),
    ("configs", "--describe --entity-type brokers --entity-name {broker}"),
    ("features", "describe"),
    ("groups", "--list"),
    ("leader-election", f"--election-type preferred --topic {TOPIC} --partition 0"),
    ("log-dirs", "--describe --broker-list {broker} --topic-list missing"),
    ("metadata-quorum", "describe --status"),
    ("reassign-partitions", "--list"),
    ("transactions", "list"),
]
OF_TOPIC = [
    ("topics", "--list"),
    ("topics", f"--describe --topic {TOPIC}"),
    ("topics", f"--create --topic {TOPIC}-next --partitions 1"),
    ("topics", f"--alter --topic {TOPIC} --partitions 2"),
    ("topics", f"--delete --topic {TOPIC}"),
    ("configs", f"--describe --entity-type topics --entity-name {TOPIC}"),
    ("configs", f"--alter --entity-type topics --entity-name {TOPIC} --add-config retention.ms=7"),
    ("get-offsets", f"--topic {TOPIC}"),
    ("transactions", f"describe-producers --topic {TOPIC} --partition 0"),
]
OF_GROUP = [
    ("consumer-groups", "--list"),
    ("consumer-groups", f"--describe --group {GROUP}"),
    ("consumer-groups", "--describe --all-groups"),
    ("consumer-groups", f"--reset-offsets --group {GROUP} --topic {TOPIC} --to-earliest --execute"),
    ("consumer-groups", f"--delete-offsets --group {GROUP} --topic {TOPIC}"),
    ("consumer-groups", f"--delete --group {GROUP}"),
    ("share-groups", f"--describe --group {GROUP}"),
    ("streams-groups", f"--describe --group {GROUP}"),
]
WRITE = ("console-producer", f"--topic {TOPIC}", "one\ntwo\n")
READ = (
    "console-consumer",
    f"--topic {TOPIC} --group {GROUP} --from-beginning --max-messages 2 --timeout-ms 10000",
)


def acls(principal, *options):
    return [ANYONE.step("acls", f"--add --allow-principal {principal} {each}") for each in options]


SECURED = [
    *(each.file() for each in (ANYONE, HOLDER, MEMBER, IMPOSTOR, DISTRUSTFUL, MISTAKEN)),
    # All clients without credentials are super users.
    ANYONE.step("topics", f"--create --topic {TOPIC} --partitions 1"),
    *ANYONE.steps(WRITE, READ, *OF_CLUSTER),
    *(each.step("topics", "--list") for each in (IMPOSTOR, DISTRUSTFUL, MISTAKEN)),
    *HOLDER.steps(WRITE, READ, *OF_TOPIC, *OF_GROUP, *OF_CLUSTER),
    *acls(CERTIFIED, f"--producer --topic {TOPIC}", f"--consumer --topic {TOPIC} --group {GROUP}"),
    *HOLDER.steps(WRITE, READ, *OF_TOPIC, *OF_GROUP),
    *acls(NAMED, "--cluster --operation All"),
    *MEMBER.steps(*OF_CLUSTER, *OF_TOPIC),
    *acls(NAMED, f"--topic {TOPIC} --resource-pattern-type prefixed --operation All"),
    *acls(NAMED, f"--group {GROUP} --operation All"),
    *MEMBER.steps(WRITE, READ, *OF_GROUP, *OF_TOPIC),
    ANYONE.step("acls", f"--list --principal {CERTIFIED} --principal {NAMED}"),
    ANYONE.step("acls", f"--remove --force --topic {TOPIC}"),
    ANYONE.step("acls", f"--remove --force --topic {TOPIC} --resource-pattern-type prefixed"),
    ANYONE.step("acls", f"--remove --force --group {GROUP}"),
    ANYONE.step("acls", "--remove --force --cluster"),
    HOLDER.step("topics", "--list"),
    ANYONE.step("acls", "--list"),
    ANYONE.step("topics", f"--delete --topic {TOPIC}-next"),
]
