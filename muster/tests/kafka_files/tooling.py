"""Shared by these scripts: Kafka's jars, and the programs that fill a cluster."""

import os
import subprocess
from pathlib import Path

from harness.clients import install, install_kafka
from harness.processes import Failure

HERE = Path(__file__).resolve().parent


def kafka_class_path():
    """The class path of Kafka in `$MUSTER_CLIENTS_CACHE`, which the client matrix uses, too."""
    return install_kafka(cache())


def streams_class_path():
    """The class path of Kafka Streams and its clients in the same cache."""
    install(["java"], cache())
    return cache() / "java" / "*"


def cache():
    target = Path(os.environ.get("CARGO_TARGET_DIR", "target"))
    return Path(os.environ.get("MUSTER_CLIENTS_CACHE", target / "clients")).resolve()


def fill(class_path, server, *words):
    """Runs Fill.java against a server, and returns its output."""
    return java(class_path, HERE / "Fill.java", server.bootstrap, *words)


def fill_newer(class_path, server, *words):
    """Runs FillNewer.java against a server, and returns its output."""
    return java(class_path, HERE / "FillNewer.java", server.bootstrap, *words)


def java(class_path, *words):
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m"]
    return output(["java", *quick, "-cp", class_path, *words])


def output(words, status=0):
    """The output of a program, which must end with this status."""
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != status:
        said = (done.stdout + done.stderr)[-4000:]
        raise Failure(f"{' '.join(words)[:400]} ended with {done.returncode}:\n{said}")
    return done.stdout
