"""Power losses: everything that the server wrote and did not sync is lost, and the machine boots
again."""

import fcntl
import os
import shutil
import struct
import subprocess
import time
import uuid
from pathlib import Path

from harness.kills import Output
from harness.processes import Failure, kill
from harness.servers import Muster
from harness.transactions import Transactions

MEBIBYTES = 1024  # the size of the volume, which is a sparse file
EXT4_IOC_SHUTDOWN, WITHOUT_FLUSH = 0x8004587D, 2
PROGRAMS = ("losetup", "mkfs.ext4", "mount", "umount", "unshare")
BOOT_ID = "/proc/sys/kernel/random/boot_id"
RELEASE_SECONDS = 30


def why_not():
    """The reason why a power loss cannot be tested on this machine; empty if it can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"there is no {', '.join(missing)}"
    return "only root can mount a volume" if os.geteuid() else ""


class Volume:
    """A separate ext4 file system, which can be shut down as by a power loss: data and journal that
    are only in the page cache never reach the disk."""

    def __init__(self, directory):
        self.image, self.place = directory / "volume.img", directory / "volume"
        self.place.mkdir()
        with open(self.image, "wb") as image:
            image.truncate(MEBIBYTES << 20)
        run("mkfs.ext4", "-q", self.image)
        self.device = run("losetup", "--find", "--show", self.image).strip()
        self.mount()

    def mount(self):
        run("mount", self.device, self.place)

    def lose_power(self):
        place = os.open(self.place, os.O_RDONLY)
        fcntl.ioctl(place, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_FLUSH))
        os.close(place)

    def unmount(self):
        """Unmounts the volume, and waits until the kernel has released it. This may happen some
        time after the last process has ended."""
        limit = time.monotonic() + RELEASE_SECONDS
        while os.path.ismount(self.place) and self._fails("umount", self.place):
            self._check(limit)
        while Path("/proc/fs/ext4", Path(self.device).name).exists():
            self._check(limit)

    def discard(self):
        self.unmount()
        run("losetup", "--detach", self.device)

    def _fails(self, *words):
        return subprocess.run(words, capture_output=True).returncode != 0

    def _check(self, limit):
        if time.monotonic() > limit:
            raise Failure(f"{self.device} stays in use")
        time.sleep(0.01)


class PoweredMuster(Muster):
    """muster on a volume that loses power. Each start after a loss sees another boot id."""

    data_place = "volume/data"

    def __init__(self, binary, directory, shards):
        self.volume, self.boot_id = Volume(directory), directory / "boot_id"
        self._boot()
        super().__init__(binary, directory, shards)

    def command(self):
        """Runs the server in a mount namespace, in which the file with the boot id has the wanted
        content."""
        script = f'mount --bind "$0" {BOOT_ID} && exec "$@"'
        return ["unshare", "-m", "sh", "-c", script, self.boot_id, *super().command()]

    def crash(self):
        kill(self.process)
        self.volume.lose_power()
        super().crash()
        self.volume.unmount()
        self.volume.mount()
        self._boot()

    def discard(self):
        super().discard()
        self.volume.discard()

    def _boot(self):
        self.boot_id.write_text(f"{uuid.uuid4()}\n")


class PowerLosses(Transactions):
    """Checks that committed records survive. The input is flushed before it is acknowledged:
    otherwise a consumer could commit offsets beyond the end of the input."""

    name, occasion = "power", "losses of power"
    create_input = "create_flushed"

    def look(self):
        """Reads the output from its beginning: records of aborted transactions and markers may be
        lost, so the last stable offsets may decrease."""
        before = self.output.records
        self.output = Output(self.output.reader, begins=True)
        self.output.read_on()
        lost = {*map(tuple, before)} - {*map(tuple, self.output.records)}
        if lost:
            raise Failure(f"committed records were lost: {sorted(lost)[:10]}")


def run(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout
