"""Keys and certificates of servers, clients and two authorities, made by openssl."""

import subprocess

DAYS = "2"
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
RSA = ("-newkey", "rsa:2048", "-nodes")

SERVER = "subjectAltName=DNS:localhost,IP:127.0.0.1"
CLIENT = "extendedKeyUsage=clientAuth"
STORE_PASSWORD = "store-secret"


def make(directory):
    """Makes two authorities, `ca.pem` and `stranger.pem`, and certificates by the first: `server`
    and `client`, each as a `.key`, a `.crt`, and a `.pem` with both."""
    directory.mkdir()
    _authority(directory, "ca")
    _authority(directory, "stranger")
    _signed(directory, "server", SERVER)
    _signed(directory, "client", CLIENT)


def stores(directory, prefix="ssl."):
    """The configs of a server with the certificate `server`. The server trusts `ca`."""
    return {
        f"{prefix}keystore.type": "PEM",
        f"{prefix}keystore.location": directory / "server.pem",
        f"{prefix}truststore.type": "PEM",
        f"{prefix}truststore.location": directory / "ca.pem",
    }


def make_next(directory):
    """Makes files that can replace `server`: `renewed`, also as `.p12`; `foreign`, by the other
    authority; `other`, with another name; `misfit.pem`, whose key does not fit its certificate; and
    `junk.pem`. Also makes `guest`, a client certificate by the other authority, and `both.pem`,
    with both authorities."""
    _signed(directory, "renewed", SERVER, subject="server")
    _signed(directory, "foreign", SERVER, subject="server", authority="stranger")
    _signed(directory, "other", SERVER)
    _signed(directory, "guest", CLIENT, authority="stranger")
    store = ("-out", "renewed.p12", "-passout", f"pass:{STORE_PASSWORD}")
    _openssl(directory, "pkcs12", "-export", "-in", "renewed.pem", "-name", "server", *store)
    _join(directory, "misfit.pem", "server.key", "renewed.crt")
    _join(directory, "both.pem", "ca.pem", "stranger.pem")
    (directory / "junk.pem").write_text("junk\n")


def make_rsa(directory):
    """Makes `rsa`, a server certificate with an RSA key."""
    _signed(directory, "rsa", SERVER, key=RSA)


def _authority(directory, name):
    files = ("-keyout", f"{name}.key", "-out", f"{name}.pem")
    subject = ("-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    _openssl(directory, "req", "-x509", *CURVE, "-days", DAYS, *subject, *files)


def _signed(directory, name, extension, subject=None, authority="ca", key=CURVE):
    files = ("-keyout", f"{name}.key", "-out", f"{name}.crt")
    signer = ("-CA", f"{authority}.pem", "-CAkey", f"{authority}.key")
    subject = ("-subj", f"/CN={subject or name}", "-addext", extension)
    own = ("-addext", "basicConstraints=critical,CA:FALSE")
    _openssl(directory, "req", "-x509", *signer, *key, "-days", DAYS, *subject, *own, *files)
    _join(directory, f"{name}.pem", f"{name}.key", f"{name}.crt")


def _join(directory, name, *parts):
    (directory / name).write_text("".join((directory / part).read_text() for part in parts))


def _openssl(directory, *words):
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)
