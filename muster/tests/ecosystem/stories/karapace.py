"""Karapace: two instances of a schema registry. Its state is a topic, and a group elects its
primary. Every acknowledged schema keeps its id, on both instances, while the server and an instance
are killed. No package registry offers Karapace to this run: `karapace` is started from the
directory of --binaries."""

import json

from harness.processes import Failure
from harness.servers import free_ports
from stories.pipeline import SHOWN, WAIT_SECONDS, Pipeline
from stories.program import ask, get

SCHEMAS = 20  # the number of schemas that are registered at a time
CONTENT = "application/vnd.schemaregistry.v1+json"
BINARY = "karapace"
INSTANCES = ("first", "second")


class Karapace(Pipeline):
    @classmethod
    def missing(cls, options):
        if not options.binaries or not (options.binaries / BINARY).exists():
            return f"no {BINARY} in the directory of --binaries"

    def run(self):
        self.ids = {}  # ids of acknowledged schemas, by the schema's number
        self.ports = {name: free_ports(1) for name in INSTANCES}
        self.instances = {name: self.start_instance(name) for name in INSTANCES}
        self.register("with two instances")
        self.server_is_killed()
        self.register("after a kill of the server")
        self.instances.pop(INSTANCES[0]).kill()
        self.register("with one instance")
        self.instances[INSTANCES[0]] = self.start_instance(INSTANCES[0])
        self.server_is_killed()
        self.register("after another kill of the server")
        self.all_are_known()
        for instance in self.instances.values():
            instance.stop()
        self.server.stop()

    def server_is_killed(self):
        self.server.crash()
        self.server.start()
        self.note("server killed")

    def start_instance(self, name):
        port = str(self.ports[name])
        settings = {"BOOTSTRAP_URI": self.server.bootstrap, "PORT": port, "HOST": "127.0.0.1",
                    "ADVERTISED_HOSTNAME": "127.0.0.1", "ADVERTISED_PORT": port,
                    "KARAPACE_REGISTRY": "true", "CLIENT_ID": name, "LOG_LEVEL": "INFO",
                    "SESSION_TIMEOUT_MS": "6000"}
        environment = {f"KARAPACE_{key}": value for key, value in settings.items()}
        return self.program(name, [self.options.binaries / BINARY], environment)

    def register(self, when):
        """Registers schemas through each instance in turn. An instance that is not the primary
        forwards them."""
        first = len(self.ids)
        for number in range(first, first + SCHEMAS):
            name = list(self.instances)[number % len(self.instances)]
            url = f"{self.url(name)}/subjects/subject-{number}/versions"
            body = json.dumps({"schema": schema(number)}).encode()
            answer = self.clock.until(lambda: ask(url, body, "POST", CONTENT),
                                      f"schema {number} is registered {when}", WAIT_SECONDS)
            self.ids[number] = json.loads(answer)["id"]
        self.note(f"{SCHEMAS} schemas registered {when}")

    def all_are_known(self):
        if len(set(self.ids.values())) != len(self.ids):
            raise Failure(f"schemas share ids: {self.ids}")
        for name in INSTANCES:
            self.clock.until(lambda: not self.unknown(name), f"{name} knows all schemas: it lacks "
                             f"{self.unknown(name)[:SHOWN]}", WAIT_SECONDS)

    def unknown(self, name):
        """The schemas that this instance does not know, or knows with another content."""
        def knows(number, id):
            answer = get(f"{self.url(name)}/schemas/ids/{id}")
            return answer and json.loads(json.loads(answer)["schema"]) == json.loads(schema(number))

        return [number for number, id in self.ids.items() if not knows(number, id)]

    def url(self, name):
        return f"http://127.0.0.1:{self.ports[name]}"

    def figures(self):
        return f"{len(self.ids)} schemas"


def schema(number):
    fields = [{"name": f"field_{number}", "type": "string"}]
    return json.dumps({"type": "record", "name": "Record", "fields": fields})
