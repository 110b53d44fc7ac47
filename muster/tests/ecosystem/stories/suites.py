"""Test suites that were written for Kafka: franz-go's own tests, and the tests of an application
with Spring and Testcontainers. Here a process takes the place of the container."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from harness.clients import renewed
from harness.processes import Failure
from stories.install import PINS, PROGRAMS
from stories.pipeline import Pipeline

SUITE_SECONDS = 900


class Suite(Pipeline):
    """A suite. Subclasses return the command that runs it, and count the passed tests."""

    passed = 0

    @classmethod
    def missing(cls, options):
        if shutil.which(cls.program) is None:
            return f"no {cls.program}"

    def run(self):
        log = self.case.directory / f"{self.program}.log"
        with open(log, "wb") as out:
            words = [str(word) for word in self.words()]
            done = subprocess.run(words, cwd=self.place(), env={**os.environ, **self.environment()}, stdout=out,
                                  stderr=subprocess.STDOUT, timeout=SUITE_SECONDS, check=False)
        self.passed = self.count(log.read_text(errors="replace"))
        if done.returncode != 0 or not self.passed:
            raise Failure(f"{self.program} ended with status {done.returncode}, {self.passed} tests passed")
        self.server.stop()

    def figures(self):
        return f"{self.passed} tests"


class FranzGo(Suite):
    """The tests of the client's package kgo, from its published module."""

    program = "go"
    # The number of records that the tests with groups produce. Their default is 500,000.
    records = 50_000

    @staticmethod
    def install(cache):
        version = (PINS / "franz-go.txt").read_text().strip()
        with renewed(cache / "franz-go", [PINS / "franz-go.txt"]) as (target, needed):
            if needed:
                words = ["go", "mod", "download", "-json", version]
                said = subprocess.run(words, cwd="/", check=True, stdout=subprocess.PIPE, text=True).stdout
                shutil.copytree(json.loads(said)["Dir"], target, dirs_exist_ok=True, copy_function=copy_writable)
                for directory, _, _ in os.walk(target):
                    os.chmod(directory, 0o755)

    def place(self):
        return self.cache / "franz-go"

    def words(self):
        return ["go", "test", "-count=1", "-v", "./pkg/kgo/"]

    def environment(self):
        return {"KGO_SEEDS": self.server.bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": str(self.records)}

    def count(self, log):
        return len(re.findall(r"^\s*--- PASS", log, re.MULTILINE))


class Spring(Suite):
    """The application and its tests are in programs/spring. The tests start a muster of their
    own."""

    program = "mvn"

    @classmethod
    def missing(cls, options):
        if options.server == "kafka":
            return "its tests start muster"
        return super().missing(options)

    def place(self):
        sources = self.case.directory / "spring"
        shutil.copytree(PROGRAMS / "spring", sources, dirs_exist_ok=True)
        return sources

    def words(self):
        return ["mvn", "-q", "-B", "-Dstyle.color=never", "test"]

    def environment(self):
        return {"MUSTER_BINARY": str(Path(self.options.server).resolve())}

    def count(self, log):
        reports = (self.case.directory / "spring/target/surefire-reports").glob("*.txt")
        found = (re.search(r"Tests run: (\d+), Failures: 0, Errors: 0", path.read_text()) for path in reports)
        return sum(int(match[1]) for match in found if match)


def copy_writable(source, target):
    """Modules of Go are read-only."""
    shutil.copyfile(source, target)
