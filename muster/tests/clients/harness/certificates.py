"""Keys and certificates by openssl: a server's, a client's, and those of two authorities."""

import subprocess

DAYS = "2"
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def make(directory):
    """`ca.pem`; `server` and `client`, each a `.key`, a `.crt` and a `.pem` with both; and
    `stranger.pem`."""
    directory.mkdir()
    _authority(directory, "ca")
    _authority(directory, "stranger")
    _signed(directory, "server", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    _signed(directory, "client", "extendedKeyUsage=clientAuth")


def _authority(directory, name):
    files = ("-keyout", f"{name}.key", "-out", f"{name}.pem")
    _openssl(directory, "req", "-x509", *CURVE, "-days", DAYS, "-subj", f"/CN={name}", *files)


def _signed(directory, name, extension):
    files = ("-keyout", f"{name}.key", "-out", f"{name}.crt")
    signer = ("-CA", "ca.pem", "-CAkey", "ca.key")
    subject = ("-subj", f"/CN={name}", "-addext", extension)
    own = ("-addext", "basicConstraints=critical,CA:FALSE")
    _openssl(directory, "req", "-x509", *signer, *CURVE, "-days", DAYS, *subject, *own, *files)
    both = (directory / f"{name}.key").read_text() + (directory / f"{name}.crt").read_text()
    (directory / f"{name}.pem").write_text(both)


def _openssl(directory, *words):
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)
