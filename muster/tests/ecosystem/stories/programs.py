"""Programs that copy and count with stream processing libraries: Kafka Streams in Java, Faust and
Quix Streams in Python. Spark only copies."""

from harness.clients import JAVA, install, maven_jars, renewed, streams_command
from harness.processes import Adapter
from harness.story import SESSION_MS
from stories.install import PINS, PROGRAMS, install_from_pypi
from stories.pipeline import Copy, CopyAndCount


class Streams(CopyAndCount):
    """Kafka Streams, at least once. The client matrix runs the same program with exactly once."""

    counts_topic = "output"

    @staticmethod
    def install(cache):
        install(["java"], cache)

    def start_tool(self):
        properties = {"processing.guarantee": "at_least_once", "copies": "true"}
        command = streams_command(self.cache, JAVA, **properties)
        state = self.case.directory / "state"
        arguments = ["process", self.server.bootstrap, self.topic, "streams-app", state, SESSION_MS]
        self.tool = Adapter(self.clock, command, arguments, self.case.directory / "streams.log")

    def stop_tool(self):
        self.tool.leave()


class FromPypi(CopyAndCount):
    """A program of the directory programs/, with the pinned packages of its tool."""

    arguments = ()

    @classmethod
    def install(cls, cache):
        install_from_pypi(cache, cls.name)

    def start_tool(self):
        python = self.cache / self.name / "bin/python"
        words = [python, "-B", PROGRAMS / f"{self.name}_app.py", *self.arguments]
        self.tool = self.program(self.name, words, self.environment())

    def environment(self):
        return {"BOOTSTRAP": self.server.bootstrap, "TOPIC": self.topic,
                "STATE": str(self.case.directory / "state")}


class Faust(FromPypi):
    name = "faust"
    arguments = ("worker", "-l", "info")


class Quix(FromPypi):
    name = "quix"


class Spark(Copy):
    name = "spark"

    @staticmethod
    def install(cache):
        install_from_pypi(cache, "spark")
        pom = PINS / "spark-pom.xml"
        with renewed(cache / "spark-jars", [pom]) as (target, needed):
            if needed:
                maven_jars(pom, target)

    def start_tool(self):
        words = [self.cache / "spark/bin/python", "-B", PROGRAMS / "spark_app.py"]
        environment = {"BOOTSTRAP": self.server.bootstrap, "TOPIC": self.topic,
                       "STATE": str(self.case.directory / "state"),
                       "JARS": f"{self.cache}/spark-jars/*"}
        self.tool = self.program("spark", words, environment)
