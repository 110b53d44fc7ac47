"""The machine, its disk and the versions of what is measured, for the head of the results."""

import os
import pathlib
import platform
import re
import statistics
import subprocess
import time

from .servers import HERE, kafka_version

FLUSHES = 300


def describe(directory: pathlib.Path) -> dict:
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    meminfo = pathlib.Path("/proc/meminfo").read_text()
    return {
        "cpu": first(r"model name\s*:\s*(.*)", cpuinfo) or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(int(first(r"MemTotal:\s*(\d+)", meminfo)) / 2**20, 1),
        "virtual": "hypervisor" in cpuinfo,
        "kernel": platform.release(),
        "file_system": output(["df", "--output=fstype", str(directory)]).split()[-1],
        "flush_us_p50": round(flush_us(directory)),
        "load_average": round(os.getloadavg()[0], 2),
    }


def versions(server_names: list[str]) -> dict:
    found = {
        "muster": output(["git", "-C", str(HERE), "describe", "--always", "--dirty"]),
        "rustc": first(r"rustc (\S+)", output(["rustc", "--version"])),
    }
    if "kafka" in server_names:
        found["kafka"] = kafka_version()
        found["java"] = first(r'"(.*)"', output(["java", "-version"]))
    return found


def flush_us(directory: pathlib.Path) -> float:
    """Median of appending 4 KiB and fdatasync, in microseconds: what one flush costs here."""
    path = directory / "flush-probe"
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    times = []
    try:
        for _ in range(FLUSHES):
            start = time.perf_counter()
            os.write(file, bytes(4096))
            os.fdatasync(file)
            times.append((time.perf_counter() - start) * 1e6)
    finally:
        os.close(file)
        path.unlink()
    return statistics.median(times)


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def output(command: list[str]) -> str:
    done = subprocess.run(
        command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    )
    return done.stdout.strip()


def first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found.group(1).strip() if found else ""
