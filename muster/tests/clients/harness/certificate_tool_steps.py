"""Key stores and trust stores of a listener, altered by `kafka-configs` while the server runs, and
the certificates that clients then see."""

from harness.broker_config_tool_steps import ONE
from harness.certificates import STORE_PASSWORD
from harness.tool_step import ServedCertificate, Step

TLS = "-X security.protocol=ssl -X ssl.ca.location={dir}/tls"


def altered(*pairs):
    configs = ",".join(f"listener.name.tls.ssl.{pair}" for pair in pairs)
    return Step("configs", f"--alter {ONE} --add-config {configs}")


def removed(*keys):
    configs = ",".join(f"listener.name.tls.ssl.{key}" for key in keys)
    return Step("configs", f"--alter {ONE} --delete-config {configs}")


def key_store(file, *more):
    return altered(f"keystore.location={{dir}}/tls/{file}", *more)


def seen_by_client(authority, more="-m 10"):
    return Step("kcat", f"-L -t sealed {more} {TLS}/{authority}", bootstrap="tls", per_broker=True)


def seen_by_guest():
    identity = "-X ssl.certificate.location={dir}/tls/guest.crt -X ssl.key.location={dir}/tls/guest.key"
    arguments = f"-L -t sealed -m 5 {TLS}/ca.pem {identity}"
    return Step("kcat", arguments, bootstrap="tls", per_broker=True)


DESCRIBED = Step("configs", f"--describe {ONE}")


def taken(change, *served):
    """A change of a certificate, steps that wait until clients see it, and a description of the
    configs. Kafka answers before its threads use the change, and each thread begins to use it at
    another time."""
    return [change, *map(ServedCertificate, served), DESCRIBED]


PEM = [
    Step("topics", "--create --topic sealed --partitions 1"),
    ServedCertificate("server"),
    seen_by_client("ca.pem"),
    *taken(key_store("renewed.pem"), "renewed"),
    seen_by_client("ca.pem"),
    # A refused key store leaves the served one and the configs unchanged.
    *map(key_store, ("missing.pem", "junk.pem", "ca.pem", "other.pem")),
    ServedCertificate("renewed"),
    DESCRIBED,
    # Kafka accepts this key store, and then no client can connect.
    key_store("misfit.pem"),
    seen_by_client("ca.pem", "-m 4"),
    *taken(key_store("foreign.pem"), "foreign"),
    seen_by_client("stranger.pem"),
]

PKCS12 = [
    key_store("renewed.p12", "keystore.type=PKCS12", f"keystore.password={STORE_PASSWORD}"),
    ServedCertificate("renewed"),
    DESCRIBED,
    key_store("missing.p12"),
    *map(altered, ("keystore.password=wrong", "keystore.type=PEM", "keystore.type=nonsense")),
    removed("keystore.password"),
    ServedCertificate("renewed"),
    altered("keystore.type=JKS"),
    DESCRIBED,
]

TRUST = [
    seen_by_guest(),
    *taken(altered("truststore.location={dir}/tls/both.pem")),
    seen_by_guest(),
    *map(altered, ("truststore.location={dir}/tls/missing.pem",
                   "truststore.location={dir}/tls/junk.pem")),
    seen_by_guest(),
    *taken(removed("truststore.location")),
    seen_by_guest(),
]

RETURNED = [
    *taken(removed("keystore.location", "keystore.type", "keystore.password"), "server"),
    seen_by_client("ca.pem"),
    Step("topics", "--delete --topic sealed"),
]

CERTIFICATES = [*PEM, *PKCS12, *TRUST, *RETURNED]
