"""Where the versions of tools are pinned, and how those of PyPI are installed."""

import sys
from pathlib import Path

from harness.clients import renewed, run

PINS = Path(__file__).resolve().parent.parent / "pins"
PROGRAMS = PINS.parent / "programs"


def install_from_pypi(cache, name):
    """Each tool in an environment of its own, as they ask for different versions of clients."""
    pins = PINS / f"{name}.txt"
    with renewed(cache / name, [pins]) as (target, needed):
        if needed:
            run(sys.executable, "-m", "venv", target)
            run(target / "bin/python", "-m", "pip", "install", "-q", "-r", pins)
    return target / "bin"
