"""Tokens of OAUTHBEARER and the keys by which they are checked, by openssl."""

import base64
import json
import subprocess
import time

SECONDS = 600
KEY_ID = "one"


def make(directory, user):
    """Makes `jwks.json`, `token`, and `stranger.token`, which another key has signed."""
    own, other = _key(directory / "issuer.key"), _key(directory / "stranger-issuer.key")
    (directory / "jwks.json").write_text(json.dumps({"keys": [_jwk(own)]}))
    for name, key in (("token", own), ("stranger.token", other)):
        (directory / name).write_text(token(key, claims(user)))


def claims(user, **more):
    now = int(time.time())
    return {"sub": user, "iat": now - 60, "exp": now + SECONDS, "scope": ["kafka"]} | more


def token(key, claims, **header):
    parts = [{"alg": "RS256", "kid": KEY_ID} | header, claims]
    signed = ".".join(_base64(json.dumps(part).encode()) for part in parts)
    return f"{signed}.{_base64(_openssl('dgst', '-sha256', '-sign', key, text=signed.encode()))}"


def _key(path):
    _openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", path)
    return path


def _jwk(key):
    modulus = _openssl("rsa", "-in", key, "-noout", "-modulus").decode().strip().split("=")[1]
    own = {"n": _base64(bytes.fromhex(modulus)), "e": "AQAB"}
    return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID} | own


def _base64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _openssl(*words, text=None):
    words = ["openssl", *(str(word) for word in words)]
    return subprocess.run(words, input=text, check=True, capture_output=True).stdout
