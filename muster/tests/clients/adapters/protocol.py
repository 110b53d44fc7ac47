"""What the Python adapters share: arguments, commands on stdin, one JSON event a line on stdout."""

import json
import sys
import threading
import traceback

CHUNK = 100  # records that a producer sends before it waits for their acknowledgements
PADDING = "x" * 100
ABORTED, COMMITTED = range(10), range(10, 20)  # the ids of `transact`'s two transactions
SERVER_SIDE = "consumer-"  # before the name of an assignor of the server's (KIP-848)


def emit(event, **fields):
    """Prints one event. One write, so that lines of several threads do not mix."""
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
    """The id of a record that was read; a record that is not as it was written ends the adapter."""
    record_id = int(key)
    if value != value_of(record_id):
        raise ValueError(f"record {record_id} came back as {value[:40]!r}")
    return record_id


def main(adapter_class):
    """Runs the mode named by the arguments: MODE BOOTSTRAP TOPIC GROUP OPTION SESSION_MS."""
    mode, bootstrap, topic, group, option, session_ms = sys.argv[1:]
    adapter = adapter_class(bootstrap, topic, group, option, int(session_ms))
    try:
        if mode == "consume":
            adapter.consume(_leaving())
            emit("left")
        else:
            _control(adapter)
    except Exception:
        traceback.print_exc()
        sys.exit(1)


def _control(adapter):
    emit("ready")
    for line in sys.stdin:
        verb, *numbers = line.split()
        getattr(adapter, verb)(*map(int, numbers))
    adapter.close()


def _leaving():
    """An event that is set by the first line on stdin, or by its end."""
    leaving = threading.Event()

    def wait_for_line():
        sys.stdin.readline()
        leaving.set()

    threading.Thread(target=wait_for_line, daemon=True).start()
    return leaving
