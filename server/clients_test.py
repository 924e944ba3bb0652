#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bonsai-server with clients that nobody here wrote: redis-cli, redis-benchmark and redis-py.

usage: clients_test.py BONSAI_SERVER

Exit code 77 (skipped, with the reason) where one of them is not installed: scripts/setup.sh test.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SKIPPED = 77
DEBIAN_PYTHON = "/usr/bin/python3"  # which has Debian's packages
START_SECONDS_MAX, STEP_SECONDS_MAX = 30, 120
try:
    import redis
except ImportError:
    redis = None


class Clients(unittest.TestCase):
    program = ""

    def setUp(self):
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        folder = tempfile.TemporaryDirectory(prefix="bonsai_server.", dir=shared)
        self.addCleanup(folder.cleanup)
        self.socket = f"{folder.name}/socket"
        log = pathlib.Path(folder.name) / "log"
        with log.open("w") as err:
            self.server = subprocess.Popen([self.program, f"--pool={folder.name}/pool", "--create", "--bytes=64M",
                                            "--slowlog_us=0",
                                            f"--listen=127.0.0.1:0,unix:{self.socket}"], stderr=err)
        self.addCleanup(self.stop)
        end = time.monotonic() + START_SECONDS_MAX
        while (found := re.search(r"ready: .* at 127\.0\.0\.1:(\d+)", log.read_text())) is None:
            self.assertIsNone(self.server.poll(), log.read_text())
            self.assertLess(time.monotonic(), end, log.read_text())
            time.sleep(0.02)
        self.port = int(found[1])

    def stop(self):
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(START_SECONDS_MAX), 0)

    def cli(self, *words, text=None):
        done = subprocess.run(["redis-cli", "-p", str(self.port), *words], input=text, capture_output=True, text=True,
                              timeout=STEP_SECONDS_MAX)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.rstrip("\n")

    def test_redis_cli(self):
        self.assertEqual(self.cli("set", "apple", "red"), "OK")
        for version in ("-2", "-3"):
            self.assertEqual(self.cli(version, "get", "apple"), "red")
            self.assertEqual(self.cli(version, "get", "pear"), "")
            self.assertIn("ok_means:durable", self.cli(version, "info"))
        self.assertIn("unknown command 'lpush'", self.cli("lpush", "a", "b"))
        self.assertEqual(self.cli(text="ping\nset pear green\nget pear\n"), "PONG\nOK\ngreen")
        lines = "".join(f"SET key:{number} {number}\r\n" for number in range(5000))
        self.assertIn("errors: 0, replies: 5000", self.cli("--pipe", text=lines))
        self.assertEqual(len(self.cli("--scan", "--pattern", "key:*").splitlines()), 5000)
        self.assertEqual(self.cli("range", "(key:4998", "[key:5", "limit", "2"), "key:4999\n4999\nkey:5\n5")

    def test_redis_benchmark(self):
        for tests, pipelined in (("ping_inline,ping_mbulk,set,get,incr,mset", 1), ("set,get,incr", 16)):
            done = subprocess.run(["redis-benchmark", "-s", self.socket, "-t", tests, "-n", "2000", "-c", "20", "-r",
                                   "1000", "-P", str(pipelined), "--csv"],
                                  capture_output=True, text=True, timeout=STEP_SECONDS_MAX)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("rror", done.stdout + done.stderr)
            self.assertEqual(len(done.stdout.splitlines()), 1 + len(tests.split(",")), done.stdout)

    def test_redis_py(self):
        for place in ({"port": self.port}, {"unix_socket_path": self.socket}):
            client = redis.Redis(decode_responses=True, **place)
            self.addCleanup(client.close)
            client.delete(*client.keys("*"), "none")
            self.assertTrue(client.ping())
            self.assertTrue(client.set("apple", "red"))
            self.assertEqual(client.get("apple"), "red")
            self.assertTrue(client.mset({"a": "1", "b": "2"}))
            self.assertEqual(client.mget("a", "none", "b"), ["1", None, "2"])
            self.assertEqual((client.exists("a", "b", "none"), client.strlen("apple"), client.type("a")),
                             (2, 3, "string"))
            self.assertEqual(client.getrange("apple", 1, -1), "ed")
            self.assertEqual((client.set("apple", "x", nx=True), client.set("none", "x", xx=True)), (None, None))
            self.assertEqual((client.incr("n"), client.decrby("n", 3), client.getdel("n")), (1, -2, "-2"))
            self.assertEqual((client.append("apple", "der"), client.getset("apple", "red")), (6, "redder"))
            with client.pipeline(transaction=False) as pipeline:
                for number in range(300):
                    pipeline.set(f"key:{number:03}", number)
                self.assertEqual(pipeline.execute(), [True] * 300)
            self.transactions(client)
            self.times_to_live(client)
            keys = [f"key:{number:03}" for number in range(300)]
            self.assertEqual(list(client.scan_iter("key:*", count=17)), keys)
            self.assertEqual(client.dbsize(), 303)
            self.assertEqual(client.delete(*keys), 300)
            self.assertEqual(client.info("persistence")["durability"], "durable")
            self.assertEqual(client.config_get("appendfsync"), {"appendfsync": "always"})
            self.assertEqual(client.client_id(), client.client_id())
            self.assertTrue(client.slowlog_reset())
            self.assertEqual((client.get("apple"), client.slowlog_len()), ("red", 1))
            self.assertIn(client.slowlog_get()[0]["command"], (b"GET apple", "GET apple"))
            with self.assertRaisesRegex(redis.ResponseError, "unknown command 'LPUSH'"):
                client.lpush("list", "value")


    def times_to_live(self, client):
        self.assertTrue(client.set("t", "1", ex=1000) and client.setex("u", 1000, "2") and client.psetex("v", 1, "3"))
        self.assertEqual((client.ttl("t"), client.ttl("none"), client.expire("t", 2000), client.ttl("t")),
                         (1000, -2, True, 2000))
        self.assertEqual((client.persist("t"), client.ttl("t"), client.getex("u", px=10**9)), (True, -1, "2"))
        self.assertGreater(client.pttl("u"), 10**8)
        time.sleep(0.01)
        self.assertEqual((client.get("v"), client.delete("t", "u", "v")), (None, 2))

    def transactions(self, client):
        with client.pipeline(transaction=True) as pipeline:
            pipeline.set("a", "1").incr("a").mget("a", "none").delete("a").get("a")
            self.assertEqual(pipeline.execute(), [True, 2, ["2", None], 1, None])
            pipeline.set("a", "word").incr("a").set("b", "3")
            with self.assertRaises(redis.ResponseError):
                pipeline.execute()
            self.assertEqual(client.mget("a", "b"), ["word", "3"])
            pipeline.set("a", "1").execute_command("LPUSH", "list", "value")
            with self.assertRaisesRegex(redis.ResponseError, "unknown command 'LPUSH'"):
                pipeline.execute()
            pipeline.watch("a")
            self.assertEqual(pipeline.get("a"), "word")
            client.set("a", "word")
            pipeline.multi()
            pipeline.set("a", "2")
            with self.assertRaises(redis.WatchError):
                pipeline.execute()

        def append(pipeline):
            seen = pipeline.get("b")
            pipeline.multi()
            pipeline.append("a", seen)

        self.assertEqual(client.transaction(append, "b"), [5])
        client.mset({"a": "1", "b": "2"})


def main():
    if redis is None and sys.executable != DEBIAN_PYTHON and os.access(DEBIAN_PYTHON, os.X_OK):
        os.execv(DEBIAN_PYTHON, [DEBIAN_PYTHON, *sys.argv])
    missing = [name for name in ("redis-cli", "redis-benchmark") if shutil.which(name) is None]
    if redis is None or missing:
        print("skipped: install redis-tools and python3-redis: scripts/setup.sh test")
        return SKIPPED
    Clients.program = sys.argv.pop(1)
    unittest.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
