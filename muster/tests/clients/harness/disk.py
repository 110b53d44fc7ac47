"""Measures how long the disk takes to sync: a server whose answers wait for the disk stands still
as long."""

import os
import threading
import time

PAUSE_SECONDS = 0.5
REMEMBERED_SECONDS = 0.5


class Disk(threading.Thread):
    """Syncs a small file again and again while cases run. The report of a failed case shows the
    slowest sync."""

    def __init__(self, directory):
        super().__init__(daemon=True)
        self.file = os.open(directory / "disk-probe", os.O_CREAT | os.O_WRONLY)
        self.begun = time.monotonic()
        self.slow = []  # slow syncs: the time of the end, and the seconds

    def run(self):
        while True:
            self.begun = time.monotonic()
            os.pwrite(self.file, b"probe", 0)
            os.fdatasync(self.file)
            done = time.monotonic()
            if done - self.begun >= REMEMBERED_SECONDS:
                self.slow.append((done, done - self.begun))
            self.begun = done + PAUSE_SECONDS
            time.sleep(PAUSE_SECONDS)

    def slowest_since(self, moment):
        """The duration in seconds of the slowest sync since a moment, including a sync in progress.
        0 if none was slow and none is in progress."""
        took = [seconds for done, seconds in self.slow if done >= moment]
        return max([*took, time.monotonic() - self.begun, 0])
