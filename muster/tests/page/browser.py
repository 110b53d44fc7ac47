"""Headless Chromium, controlled through a pipe by the protocol of its developer tools (JSON)."""

import base64
import json
import os
import pathlib
import select
import subprocess
import time

PATIENCE = 30


class Browser:
    """A browser with one page. `errors` collects errors of scripts, and loads that were refused."""

    def __init__(self, command: str, profile: str):
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()
        words = [command, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                 "--no-first-run", "--window-size=1280,1000", f"--user-data-dir={profile}"]
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", *words, "about:blank"],
            pass_fds=(to_browser, from_browser), stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.count, self.bytes, self.session = 0, b"", None
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Accessibility"]:
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)

    def call(self, method: str, **parameters) -> dict:
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self) -> dict:
        while b"\0" not in self.bytes:
            ready, _, _ = select.select([self.into], [], [], PATIENCE)
            if not ready:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self.into, 1 << 16)
            if not piece:
                raise RuntimeError("the browser ended")
            self.bytes += piece
        text, self.bytes = self.bytes.split(b"\0", 1)
        message = json.loads(text)
        self.note(message.get("method"), message.get("params", {}))
        return message

    def note(self, method: str | None, parameters: dict) -> None:
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(parameters["exceptionDetails"]))
        if method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])

    def take_errors(self) -> list[str]:
        self.evaluate("1")
        errors, self.errors = self.errors, []
        return errors

    def evaluate(self, expression: str):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True,
                           returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def until(self, expression: str, what: str = ""):
        """Waits until an expression is true. Returns its value, and how many seconds this took."""
        began = time.monotonic()
        while time.monotonic() < began + PATIENCE:
            # While a page is being opened, none of its elements exist yet.
            value = self.evaluate(
                f"(() => {{ try {{ const it = {expression}; return it instanceof Node || it; }}"
                " catch { return null; } })()")
            if value:
                return value, time.monotonic() - began
            time.sleep(0.02)
        raise self.failure(f"{what or expression} does not hold after {PATIENCE} s")

    def failure(self, words: str) -> AssertionError:
        """The error for a failed check. The failed check comes last, because a caller may show only
        the end of the output."""
        page = self.evaluate("document.body.innerText")
        return AssertionError(f"the page has\n{page}\nerrors: {self.errors}\n{words}")

    def open(self, address: str) -> None:
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)

    def press(self, key: str, code: int, text: str = "") -> None:
        event = {"key": key, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
        self.call("Input.dispatchKeyEvent", type="keyDown", **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text: str) -> None:
        for character in text:
            self.press(character, ord(character.upper()), character)

    def width(self, width: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=1000,
                  deviceScaleFactor=1, mobile=False)

    def scheme(self, name: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def nodes(self) -> list[tuple[str, str]]:
        """The role and name of each node that a screen reader finds."""
        tree = self.call("Accessibility.getFullAXTree")["nodes"]
        value = lambda node, key: str(node.get(key, {}).get("value", ""))
        return [(value(node, "role"), value(node, "name")) for node in tree
                if not node.get("ignored")]

    def picture(self, path: pathlib.Path) -> None:
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
