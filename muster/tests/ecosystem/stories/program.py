"""A process of a tool. It is watched like an adapter of a client, but reports nothing except its
log."""

import os
import signal
import subprocess
import urllib.error
import urllib.request

from harness.processes import Failure, kill, spawn

QUICK_JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m")
STOP_SECONDS = 60


class Program:
    def __init__(self, clock, words, log_path, environment=None):
        self.clock, self.log_path, self.name = clock, log_path, log_path.stem
        self.expected_to_end = False
        with open(log_path, "ab") as log:
            self.process = spawn(words, log, environment, stdin=subprocess.DEVNULL, stdout=log,
                                 cwd=log_path.parent)
        clock.adapters.append(self)

    def check(self):
        """Fails if the program ended without being asked to."""
        if not self.expected_to_end and self.process.poll() is not None:
            raise Failure(f"{self.name} ended with status {self.process.returncode}")

    def kill(self):
        """SIGKILL to the process and to the processes that it started: they share a session."""
        self.expected_to_end = True
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        kill(self.process)

    def stop(self):
        """SIGTERM. Fails if the process does not end in time."""
        self.expected_to_end = True
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} does not stop on SIGTERM") from None
        finally:
            self.kill()

    def log(self):
        return self.log_path.read_text(errors="replace")

    def state(self):
        return f"  -- {self.name}: {'ended' if self.process.poll() is not None else 'runs'}"


def get(url):
    """The body at a URL of a program; None while the program does not answer, or answers with an
    error."""
    return ask(url)


def ask(url, body=None, method=None, content_type="application/json"):
    request = urllib.request.Request(url, body, {"Content-Type": content_type}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None
