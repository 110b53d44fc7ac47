"""The crates that a binary consists of, according to cargo's metadata."""

import json
import pathlib
import subprocess

ARCHITECTURES, LIBRARIES = ("x86_64", "aarch64"), ("gnu", "musl")
HERE = pathlib.Path(__file__).resolve().parent


class Crates:
    """The crates of some binaries, all crates whose code is linked into them or generates a part of them, and the uses
    among these crates."""

    def __init__(self, *names):
        self.all, self.uses = {}, {}
        for target in (f"{arch}-unknown-linux-{of}" for arch in ARCHITECTURES for of in LIBRARIES):
            of_target = metadata(target)
            for name in names:
                self.add(name, of_target)

    def named(self, name):
        [found] = [it for it in self.all.values() if it["name"] == name and not it["source"]]
        return found

    def add(self, name, metadata):
        packages = {it["id"]: it for it in metadata["packages"]}
        nodes = {it["id"]: it["deps"] for it in metadata["resolve"]["nodes"]}
        [own] = [it["id"] for it in metadata["packages"] if it["name"] == name]
        seen, left = set(), [own]
        while left:
            crate = left.pop()
            if crate not in seen:
                seen.add(crate)
                used = {it["pkg"] for it in nodes[crate] if is_linked(it)}
                self.all[crate] = packages[crate]
                self.uses.setdefault(crate, set()).update(used)
                left += used

    def of_others(self):
        return sorted((it for it in self.all.values() if it["source"]), key=lambda it: (it["name"], it["version"]))


def metadata(target):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    return json.loads(subprocess.run(command, cwd=HERE, check=True, stdout=subprocess.PIPE).stdout)


def is_linked(dependency):
    """Whether a dependency is not only for tests or build scripts."""
    return any(it["kind"] is None for it in dependency["dep_kinds"])
