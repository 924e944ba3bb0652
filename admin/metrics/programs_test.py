#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Metrics of the running programs: docs/metrics.md has all that they serve, promtool accepts them, and Debian's
Prometheus scrapes them.

usage: programs_test.py BONSAI_SERVER BONSAID

Exit code 77 (skipped, with the reason) where Prometheus is not installed: scripts/setup.sh test.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

SKIPPED = 77
SECONDS_MAX = 60
PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "metrics.md"


def fetch(url):
    with urllib.request.urlopen(url, timeout=SECONDS_MAX) as reply:
        return reply.read().decode()


def families_of(text):
    """{name: (type, help)} of a text in Prometheus' format."""
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    return {name: (kind, helps[name]) for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)}


class Programs(unittest.TestCase):
    server = bonsaid = ""

    def setUp(self):
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        folder = tempfile.TemporaryDirectory(prefix="bonsai_metrics.", dir=shared)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        os.environ["BONSAI_SHM_FOLDER"] = str(self.folder)

    def start(self, name, words, says):
        """Starts a program that ends on SIGTERM with 0; returns what `says` finds in its log."""
        log = self.folder / f"{name}.log"
        with log.open("w") as err:
            process = subprocess.Popen(words, stdout=err, stderr=err)

        def stop():
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(SECONDS_MAX), 0, log.read_text())

        self.addCleanup(stop)
        end = time.monotonic() + SECONDS_MAX
        while (found := re.search(says, log.read_text())) is None:
            self.assertIsNone(process.poll(), log.read_text())
            self.assertLess(time.monotonic(), end, log.read_text())
            time.sleep(0.02)
        return found[1]

    def serve_group(self):
        """Three nodes and a server whose pool is a group of them. Returns the URLs of server and first node."""
        urls = [self.start(f"node{i}", [self.bonsaid, f"--folder={self.folder}/pools{i}", f"--listen=shm://n{i}",
                                        "--domain=adr", "--litmus_ms=5", "--metrics=0"], r"metrics at (http\S+)")
                for i in range(3)]
        pool = "|".join(f"shm://n{i}/served" for i in range(3)) + "?replicas_min=2"
        url = self.start("server", [self.server, f"--pool={pool}", "--create", "--bytes=16M", "--metrics=0",
                                    f"--listen=unix:{self.folder}/socket"], r"metrics at (http\S+)")
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(SECONDS_MAX)
            client.connect(f"{self.folder}/socket")
            client.sendall(b"SET apple red\r\n" * 5)
            self.assertEqual(client.makefile("rb").read(25), b"+OK\r\n" * 5)
        return [url, urls[0]]

    def test_the_page_has_all_and_promtool_accepts_them(self):
        urls = self.serve_group()
        texts = [fetch(url) for url in urls]
        served = {name: what for text in texts for name, what in families_of(text).items()}
        listed = {name: (kind, told) for name, kind, told in
                  re.findall(r"^\| (bonsaid?_\w+) \| (\w+) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)}
        self.assertEqual(listed, served)
        self.assertIn("\nbonsai_server_requests_total 5\n", texts[0])
        self.assertIn("\nbonsai_server_request_seconds_count 5\n", texts[0])
        self.assertEqual(len(re.findall(r'bonsai_group_member_state\{.*state="in sync"\} 1', texts[0])), 3, texts[0])
        self.assertRegex(texts[1], r'bonsaid_pool_owned\{pool="served"\} 1\n')
        self.assertRegex(texts[1], r'bonsaid_pool_lease_seconds\{pool="served"\} [01]\.\d+')
        self.assertRegex(texts[1], r'bonsaid_flush_requests_total\{address="shm://n0"\} [1-9]')
        for text in texts:
            done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True,
                                  timeout=SECONDS_MAX)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
        # It can tell: a counter without its ending.
        bad = subprocess.run(["promtool", "check", "metrics"],
                             input=texts[0].replace("bonsai_puts_total", "bonsai_puts"), capture_output=True, text=True,
                             timeout=SECONDS_MAX)
        self.assertNotEqual(bad.returncode, 0)

    def test_prometheus_scrapes_them(self):
        places = [re.search(r"//([^/]+)/", url)[1] for url in self.serve_group()]
        config = self.folder / "prometheus.yml"
        config.write_text("global: {scrape_interval: 200ms}\nscrape_configs:\n- job_name: bonsai\n  static_configs:\n"
                          f"  - targets: {json.dumps(places)}\n")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            own = f"127.0.0.1:{probe.getsockname()[1]}"
        self.start("prometheus", ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}/data",
                                  f"--web.listen-address={own}"], r"(ready to receive web requests)")

        def values(query):
            data = json.loads(fetch(f"http://{own}/api/v1/query?query={query}"))["data"]["result"]
            return sorted(float(each["value"][1]) for each in data)

        end = time.monotonic() + SECONDS_MAX
        while values("up") != [1, 1]:
            self.assertLess(time.monotonic(), end, "Prometheus reaches them not")
            time.sleep(0.1)
        self.assertEqual(values("bonsai_server_requests_total"), [5])
        self.assertEqual(values("bonsaid_pools"), [1])


def main():
    missing = [name for name in ("promtool", "prometheus") if shutil.which(name) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} not found; install prometheus: scripts/setup.sh test")
        return SKIPPED
    Programs.bonsaid = sys.argv.pop()
    Programs.server = sys.argv.pop()
    unittest.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
