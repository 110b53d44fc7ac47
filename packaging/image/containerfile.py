"""Reads a Containerfile without a base, so that its image can be made without an engine. Knows only the instructions that
muster's file uses."""

import json
import pathlib
import shutil
import sys


class Containerfile:
    """The config with which an engine starts the image, and the files to copy."""

    def __init__(self, path):
        self.config = {"Env": ["PATH=/usr/bin:/bin"], "WorkingDir": "/"}
        self.copies = []
        for line in path.read_text().replace("\\\n", " ").splitlines():
            if line and not line.startswith("#"):
                self.take(*line.split(None, 1))

    def take(self, instruction, rest):
        match instruction, rest:
            case "FROM", "scratch":
                pass
            case "COPY", _:
                self.copies.append(Copy(rest))
            case "USER", _:
                self.config["User"] = rest
            case "STOPSIGNAL", _:
                self.config["StopSignal"] = rest
            case "VOLUME", _:
                self.config["Volumes"] = {rest: {}}
            case "EXPOSE", _:
                self.config["ExposedPorts"] = {f"{port}/tcp": {} for port in ports(rest)}
            case ("ENTRYPOINT" | "CMD"), _:
                self.config[instruction.capitalize()] = json.loads(rest)
            case _:
                sys.exit(f"a Containerfile with {instruction} {rest} needs an engine")

    def fill(self, root, context, binary):
        """Copies the files of the image. Returns the owner and the mode of each file that does not
        belong to root."""
        owners = {}
        for copy in self.copies:
            target = root / copy.target.lstrip("/")
            for source in copy.sources:
                if (context / source).is_dir():
                    shutil.copytree(context / source, target)
                else:
                    is_into = copy.target.endswith("/")
                    (target if is_into else target.parent).mkdir(parents=True, exist_ok=True)
                    shutil.copy(binary if pathlib.Path(source).name == "muster" else context / source, target)
            if copy.user:
                copied = [target, *target.rglob("*")]
                owners |= {str(it.relative_to(root)): (copy.user, 0o755 if it.is_dir() else 0o644) for it in copied}
        return owners


class Copy:
    def __init__(self, rest):
        *words, self.target = rest.split()
        chown = [word for word in words if word.startswith("--chown=")]
        self.user = int(chown[0].split(":")[-1]) if chown else 0
        self.sources = [word for word in words if word not in chown]


def ports(words):
    for word in words.split():
        first, _, last = word.partition("-")
        yield from range(int(first), int(last or first) + 1)
