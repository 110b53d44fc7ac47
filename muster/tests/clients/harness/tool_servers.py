"""The servers of `tools`: beside the listener of the tools they have one with TLS."""

from harness import certificates
from harness.servers import Kafka, Muster


class _WithTls:
    """What both have: `tls/` with keys and certificates, and the listener."""

    @property
    def ports_needed(self):
        return self._ports_of_others() + self.shards

    def _ports_of_others(self):
        return max(self.shards, super().ports_needed)

    @property
    def tls_port(self):
        return self.port + self._ports_of_others()

    @property
    def tls(self):
        return f"127.0.0.1:{self.tls_port}"

    @property
    def files(self):
        return self.directory / "tls"

    def _place(self):
        certificates.make(self.files)
        certificates.make_next(self.files)
        place = super()._place()
        for key in ("listeners", "advertised.listeners"):
            place[key] += f",TLS://{self.tls}"
        protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL"
        place["listener.security.protocol.map"] = protocols
        place["listener.name.tls.ssl.client.auth"] = "requested"
        return place | certificates.stores(self.files, "listener.name.tls.ssl.")


class ToolMuster(_WithTls, Muster):
    pass


class ToolKafka(_WithTls, Kafka):
    pass
