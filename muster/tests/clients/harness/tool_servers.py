"""The servers of `tools`. Besides the listener of the tools, each has a listener with TLS, and one
with passwords."""

from harness import certificates
from harness.servers import PLAIN_MODULE, Kafka, Muster

#: The client that may log in with a password.
USER, PASSWORD = "sentry", "sentry-secret"


class _WithTls:
    """Shared by both servers: `tls/` with keys and certificates, and the listeners."""

    @property
    def ports_needed(self):
        return self._ports_of_others() + 2 * self.shards

    def _ports_of_others(self):
        return max(self.shards, super().ports_needed)

    @property
    def tls_port(self):
        return self.port + self._ports_of_others()

    @property
    def tls(self):
        return f"127.0.0.1:{self.tls_port}"

    @property
    def passwords(self):
        return f"127.0.0.1:{self.tls_port + self.shards}"

    @property
    def files(self):
        return self.directory / "tls"

    def _place(self):
        certificates.make(self.files)
        certificates.make_next(self.files)
        place = super()._place()
        for key in ("listeners", "advertised.listeners"):
            place[key] += f",TLS://{self.tls},PASSWORDS://{self.passwords}"
        place["listener.security.protocol.map"] = (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,PASSWORDS:SASL_SSL"
        )
        place["listener.name.tls.ssl.client.auth"] = "requested"
        place["listener.name.passwords.sasl.enabled.mechanisms"] = "PLAIN"
        place["listener.name.passwords.plain.sasl.jaas.config"] = (
            f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";'
        )
        for listener in ("tls", "passwords"):
            place |= certificates.stores(self.files, f"listener.name.{listener}.ssl.")
        return place


class ToolMuster(_WithTls, Muster):
    pass


class ToolKafka(_WithTls, Kafka):
    pass
