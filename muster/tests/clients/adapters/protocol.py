"""Shared by the Python adapters: arguments, commands on standard input, and events on standard
output, one JSON object in each line."""

import json
import logging
import sys
import threading
import traceback

CHUNK = 100  # records that a producer sends before it waits for their acknowledgements
PADDING = "x" * 100
ABORTED, COMMITTED = range(10), range(10, 20)  # the ids of `transact`'s two transactions
SERVER_SIDE = "consumer-"  # the prefix of names of assignors of the server (KIP-848)


committed = {}  # by partition: the offset in the last event


def emit(event, **fields):
    """Prints one event. One write, so that lines of several threads do not mix."""
    if event == "committed":
        committed.update(fields["offsets"])
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def chunks(first, count):
    """The ids of `produce first count`, cut into chunks."""
    end = first + count
    for start in range(first, end, CHUNK):
        yield range(start, min(start + CHUNK, end))


def key_of(record_id):
    return str(record_id).encode()


def value_of(record_id):
    return f"{record_id} {PADDING}".encode()


def id_of(key, value):
    """The id of a record that was read. If the value was changed, the adapter ends."""
    record_id = int(key)
    if value != value_of(record_id):
        raise ValueError(f"record {record_id} came back as {value[:40]!r}")
    return record_id


def text_of(path):
    """The text of a file, such as a token."""
    with open(path) as file:
        return file.read().strip()


def main(adapter_class):
    """Runs the mode named by the arguments: MODE BOOTSTRAP TOPIC GROUP OPTION SESSION_MS."""
    mode, bootstrap, topic, group, option, session_ms = sys.argv[1:]
    place = {"bootstrap": bootstrap, "topic": topic, "group": group}

    def make(of, assignor):
        return adapter_class(of, assignor, int(session_ms))

    try:
        if mode == "consume":
            make(place, option).consume(_leaving())
            emit("left")
        elif mode == "share":
            make(place, option).share(_leaving())
            emit("left")
        else:
            _control(make, place, option)
    except Exception:
        traceback.print_exc()
        sys.exit(1)


def _control(make, place, option):
    adapter = make(place, option)
    emit("ready")
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == "connect":
            adapter.close()
            place = dict(word.split("=", 1) for word in words)
            adapter = make(place, option)
            emit("connected")
        elif verb == "read":
            make(place, words[0]).consume(Committed(int(words[1])))
            emit("left")
        elif verb == "be_refused":
            _be_refused(adapter)
        else:
            getattr(adapter, verb)(*map(int, words))
    adapter.close()


def _be_refused(adapter):
    """Reports the error and the log lines of a refused connection: some clients raise only that no
    server could be reached, and log the reason."""
    logged = Logged()
    logging.getLogger().addHandler(logged)
    try:
        adapter.create(1)
    except Exception as error:
        emit("refused", error="; ".join([repr(error), *logged.lines]))
    finally:
        logging.getLogger().removeHandler(logged)


class Logged(logging.Handler):
    """Keeps the warnings and errors of a client."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


class Committed:
    """An event that is set once the committed offsets add up to a number."""

    def __init__(self, count):
        self.count = count
        committed.clear()

    def is_set(self):
        return sum(committed.values()) >= self.count


def _leaving():
    """An event that is set by the first line on stdin, or by its end."""
    leaving = threading.Event()

    def wait_for_line():
        sys.stdin.readline()
        leaving.set()

    threading.Thread(target=wait_for_line, daemon=True).start()
    return leaving
