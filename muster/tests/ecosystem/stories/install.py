"""Where the versions of tools are pinned, and how tools from PyPI are installed."""

import sys
from pathlib import Path

from harness.clients import renewed, run

PINS = Path(__file__).resolve().parent.parent / "pins"
PROGRAMS = PINS.parent / "programs"


def install_from_pypi(cache, name):
    """Installs a tool in an environment of its own, because the tools need different versions of
    clients."""
    pins = PINS / f"{name}.txt"
    with renewed(cache / name, [pins]) as (target, needed):
        if needed:
            run(sys.executable, "-m", "venv", target)
            run(target / "bin/python", "-m", "pip", "install", "-q", "-r", pins)
    return target / "bin"
