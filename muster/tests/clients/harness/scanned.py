"""The server that `scan` scans: it has a listener for each way of using TLS."""

from dataclasses import dataclass

from harness import certificates
from harness.servers import Muster

ONLY_NEWEST = (("ssl.enabled.protocols", "TLSv1.3"),)


@dataclass(frozen=True)
class Listener:
    name: str
    profile: str  # the profile of Mozilla that the listener has to satisfy
    client_auth: str = "none"
    protocol: str = "SSL"
    # Further keys with their values. {files} stands for the directory of certificates.
    more: tuple = ()

    def keys(self, files):
        own = {"ssl.client.auth": self.client_auth, **dict(self.more)}
        before = f"listener.name.{self.name.lower()}"
        return {f"{before}.{key}": value.format(files=files) for key, value in own.items()}

    def credentials(self):
        """For each scan of the listener, whether the scanner has a client certificate."""
        return (False,) if self.client_auth == "none" else (False, True)


LISTENERS = (
    Listener("DEFAULTS", "intermediate"),
    Listener("RSA", "intermediate", more=(("ssl.keystore.location", "{files}/rsa.pem"),)),
    Listener("REQUIRED", "intermediate", "required"),
    Listener("PASSWORD", "intermediate", "requested", "SASL_SSL",
             (("sasl.enabled.mechanisms", "SCRAM-SHA-256"),)),
    Listener("MODERN", "modern", more=ONLY_NEWEST),
    Listener("MODERNREQUIRED", "modern", "required", more=ONLY_NEWEST),
)


class ScannedMuster(Muster):
    """One shard, whose listeners have consecutive ports."""

    ports_needed = len(LISTENERS)

    def __init__(self, binary, directory):
        super().__init__(binary, directory, 1, ())

    @property
    def files(self):
        return self.directory / "files"

    def ports(self):
        return range(self.port, self.port + len(LISTENERS))

    def _place(self):
        certificates.make(self.files)
        certificates.make_rsa(self.files)
        bound = [f"{it.name}://127.0.0.1:{port}" for it, port in zip(LISTENERS, self.ports())]
        place = {
            "listeners": ",".join(bound),
            "listener.security.protocol.map": ",".join(f"{it.name}:{it.protocol}" for it in LISTENERS),
            "log.dirs": self.data,
        }
        place |= certificates.stores(self.files)
        for listener in LISTENERS:
            place.update(listener.keys(self.files))
        return place
