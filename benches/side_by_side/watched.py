"""A server of one shard with an admin listener; the kernel reports how long its threads have run."""

import http.client
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from .servers import MUSTER, SERVER_CORE, free_ports, words

START_SECONDS_MAX = 60


class Watched:
    """See the head of the file."""

    def __init__(self, binary: str, base: pathlib.Path, *configs: str):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="watched-", dir=base))
        self.port, self.admin = free_ports(2)
        values = {"bin": binary, "dir": str(self.directory), "port": self.port}
        command = ["taskset", "-c", str(SERVER_CORE), *words(MUSTER.command, values)]
        command = [word for word in command if not word.startswith("admin.listener")]
        command += [f"admin.listener=127.0.0.1:{self.admin}", *configs]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                if self.get("/readyz")[0] == 200:
                    return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("muster does not serve")

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=30)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def thread_micros(self, name: str) -> float:
        """The time that a thread has run."""
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            if (task / "comm").read_text().strip() == name:
                return int((task / "schedstat").read_text().split()[0]) / 1000
        raise SystemExit(f"there is no thread {name}")

    def shard_micros(self) -> float:
        return self.thread_micros("shard-0")

    def process_micros(self) -> float:
        """The time that all threads have run, including those of ended connections."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 10_000

    def end(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.directory)
