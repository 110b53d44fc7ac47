"""Processes that the harness starts. Each is ended by its own pid. Adapters report events."""

import json
import os
import signal
import subprocess
import threading
import time


EVENTS_SHOWN, EVENT_COLUMNS = 5, 200


class Failure(Exception):
    """An expectation that a case did not meet, as a message for a person."""


_alive = set()
_alive_lock = threading.Lock()


def spawn(words, log, environment=None, **options):
    """Starts a process in a session of its own, its stderr in a file, and remembers it."""
    process = subprocess.Popen(
        [str(word) for word in words],
        stderr=log,
        env={**os.environ, **(environment or {})},
        start_new_session=True,
        **options,
    )
    with _alive_lock:
        _alive.add(process)
    return process


def kill(process):
    """Ends a process that `spawn` started, and waits for it."""
    if process.poll() is None:
        process.kill()
    process.wait()
    with _alive_lock:
        _alive.discard(process)


def kill_all():
    """Ends every process that is still there. For the end of the run only."""
    with _alive_lock:
        left = list(_alive)
    for process in left:
        kill(process)


class Clock:
    """The time limit of a case, and the only place where the case waits."""

    def __init__(self, seconds):
        self.changed = threading.Condition()
        self.deadline = time.monotonic() + seconds
        self.adapters = []
        self.reports = []  # (adapter, event) of all adapters, in order of arrival

    def until(self, condition, what, seconds=30):
        """Waits for a condition on the adapters' events; fails if an adapter ends unasked."""
        limit = min(self.deadline, time.monotonic() + seconds)
        with self.changed:
            while not (value := condition()):
                for adapter in self.adapters:
                    adapter.check()
                left = limit - time.monotonic()
                if left <= 0:
                    raise Failure(f"{what}: not within the time")
                self.changed.wait(min(left, 0.5))
            return value


class Adapter:
    """One process of a client. Its reports are in the fields, which are read under the clock's
    lock."""

    def __init__(self, clock, command, arguments, log_path):
        words, environment = command
        self.clock, self.name, self.log_path = clock, log_path.stem, log_path
        self.events = []
        self.partitions = set()
        # The records that a consumer printed, or those that were acknowledged to a producer.
        self.records = []
        self.log = []  # what `dump` printed
        self.commits = {}  # by partition: the highest offset whose commit was acknowledged
        self.expected_to_end = False
        with open(log_path, "wb") as log:
            self.process = spawn(
                [*words, *arguments],
                log,
                environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        clock.adapters.append(self)

    def say(self, command):
        """Sends a command. Returns the index of the first event that may be its answer."""
        with self.clock.changed:
            asked = len(self.events)
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.check()
            raise Failure(f"{self.name} does not read commands") from None
        return asked

    def ask(self, command, answer, seconds=30):
        """Sends a command and waits for the event that answers it."""
        asked = self.say(command)
        return self.wait(answer, asked, f"{self.name}: {command}", seconds)

    def wait(self, event, since, what, seconds=30):
        def answered():
            return next((e for e in self.events[since:] if e["event"] == event), None)

        return self.clock.until(answered, what, seconds)

    def count(self, event):
        return sum(e["event"] == event for e in self.events)

    def kill(self):
        """SIGKILL. The output that the process had written until then is still read."""
        self.expected_to_end = True
        kill(self.process)
        self.reader.join(10)
        with self.clock.changed:
            self.partitions = set()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def leave(self, command="leave"):
        """Asks the client to leave, and waits for its end."""
        self.expected_to_end = True
        self.ask(command, "left")
        self._end()
        with self.clock.changed:
            self.partitions = set()

    def end(self):
        """Closes stdin, which ends a control process, and waits for it."""
        self.expected_to_end = True
        self.process.stdin.close()
        self._end()

    def _end(self):
        try:
            status = self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} does not end") from None
        if status != 0:
            raise Failure(f"{self.name} ended with status {status}")

    def check(self):
        """Fails if the process has ended without being asked to."""
        if not self.expected_to_end and self.process.poll() is not None:
            raise Failure(f"{self.name} ended with status {self.process.returncode}")

    def state(self):
        """The state of the adapter and its last events, for a person who reads about a failed
        case."""
        with self.clock.changed:
            last = [str(event)[:EVENT_COLUMNS] for event in self.events[-EVENTS_SHOWN:]]
            own = f"partitions {sorted(self.partitions)}, {len(self.records)} records"
        return "\n".join([f"  -- {self.name}: {own}; last:", *(f"  {event}" for event in last)])

    def _read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            with self.clock.changed:
                self._take(event)
                self.clock.changed.notify_all()
        with self.clock.changed:
            self.clock.changed.notify_all()

    def _take(self, event):
        self.events.append(event)
        self.clock.reports.append((self, event))
        match event["event"]:
            case "assigned":
                self.partitions |= set(event["partitions"])
            case "revoked":
                self.partitions -= set(event["partitions"])
            case "records" | "acked":
                self.records += event["records"]
            case "log":
                self.log += event["records"]
            case "committed":
                for partition, offset in event["offsets"].items():
                    key = int(partition)
                    self.commits[key] = max(offset, self.commits.get(key, 0))
