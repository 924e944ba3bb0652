# SPDX-License-Identifier: Apache-2.0
"""Opens a page in headless Chromium over its DevTools pipe (no driver, no port) and reports what happened: console
messages, network requests, the answers to scripts, a screenshot.
"""
import base64
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import zlib

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")


def find_browser():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self, width=1200, height=900):
        self.profile = tempfile.TemporaryDirectory()
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()
        # The browser reads commands from 3 and writes answers to 4.
        command = [find_browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--hide-scrollbars", "--no-first-run", "--disable-background-networking", "--remote-debugging-pipe",
                   f"--user-data-dir={self.profile.name}", f"--window-size={width},{height}", "about:blank"]
        script = f'exec 3<&{to_read} 4>&{to_write} && exec "$@"'
        self.process = subprocess.Popen(["bash", "-c", script, "browser", *command], pass_fds=(to_read, to_write),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.count, self.session = b"", 0, None
        self.console, self.requests, self.loaded = [], [], False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(timeout=10)
        except (OSError, EOFError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.profile.cleanup()

    def _receive(self):
        while b"\0" not in self.buffer:
            part = os.read(self.from_browser, 1 << 16)
            if not part:
                raise EOFError("the browser ended")
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(message)
        method, details = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(word.get("value", word)) for word in details["args"]))
        elif method == "Runtime.exceptionThrown":
            self.console.append(details["exceptionDetails"]["text"])
        elif method == "Log.entryAdded":
            self.console.append(details["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded = True
        return message

    def call(self, method, **arguments):
        self.count += 1
        message = {"id": self.count, "method": method, "params": arguments}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path):
        """Loads the file; console and requests then hold what that caused, the file itself aside."""
        self.console, self.requests, self.loaded = [], [], False
        url = pathlib.Path(path).as_uri()
        self.call("Page.navigate", url=url)
        while not self.loaded:
            self._receive()
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.requests = [request for request in self.requests if request != url and not request.startswith("data:")]

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["text"] + " in " + expression)
        return answer["result"].get("value")

    def media(self, kind="screen", scheme="light"):
        scheme = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", media=kind, features=[scheme])

    def screenshot(self, path, width, height):
        """The upper left part of the page as a PNG file."""
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def print_to_pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])


def colours_of_png(path):
    """{(r, g, b): pixels} of a PNG file with 8 bits per channel."""
    with open(path, "rb") as file:
        data = file.read()
    at, packed, width, channels = 8, b"", 0, 0
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        chunk = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, _, depth, colour_type = struct.unpack_from(">IIBB", chunk)
            channels = {2: 3, 6: 4}[colour_type]
            assert depth == 8
        elif kind == b"IDAT":
            packed += chunk
        at += 12 + length
    raw, stride, colours = zlib.decompress(packed), width * channels, {}
    above = bytes(stride)
    for start in range(0, len(raw), stride + 1):
        above = _unfilter(raw[start], bytearray(raw[start + 1:start + 1 + stride]), above, channels)
        for x in range(0, stride, channels * 7):  # every seventh pixel will do
            colour = bytes(above[x:x + 3])
            colours[colour] = colours.get(colour, 0) + 1
    return {tuple(colour): count for colour, count in colours.items()}


def _unfilter(kind, row, above, step):
    for i in range(len(row) if kind else 0):
        left = row[i - step] if i >= step else 0
        up, corner = above[i], above[i - step] if i >= step else 0
        if kind == 1:
            predicted = left
        elif kind == 2:
            predicted = up
        elif kind == 3:
            predicted = (left + up) // 2
        else:
            guess = left + up - corner
            predicted = min((left, up, corner), key=lambda value: (abs(guess - value), (left, up, corner).index(value)))
        row[i] = (row[i] + predicted) & 0xFF
    return row
