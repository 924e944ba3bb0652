#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bonsai-server on sockets that somebody else has opened, as systemd does.

usage: activation_test.py BONSAI_SERVER
"""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECONDS_MAX = 60
FIRST_PASSED = 3  # where the protocol has the first descriptor


def ask(to, text):
    to.sendall(text.encode() + b"\r\n")
    return to.recv(4096).decode().strip()


class Activation(unittest.TestCase):
    program = ""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="bonsai_server.", dir="/dev/shm")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "log"
        self.flags = [f"--pool={folder.name}/pool", "--create", "--bytes=16M", "--threads=2"]

    def spawn(self, words, **how):
        """Starts a program, which is stopped at the end of the test."""
        with self.log.open("w") as err:
            started = subprocess.Popen(words, stderr=err, **how)
        self.addCleanup(self.stop, started)
        return started

    def stop(self, started):
        if started.poll() is None:
            started.send_signal(signal.SIGTERM)
        try:
            return started.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            started.kill()
            raise

    def pass_sockets(self, passed, *more, **variables):
        """Starts the server with these sockets, in the way of systemd: from descriptor 3 on, and named by LISTEN_*."""
        def move():
            copies = [os.dup2(each.fileno(), 100 + i) for i, each in enumerate(passed)]
            for i, copy in enumerate(copies):
                os.dup2(copy, FIRST_PASSED + i, inheritable=True)

        words = ["/bin/sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh", self.program, *self.flags, *more]
        return self.spawn(words, preexec_fn=move, close_fds=False,
                          env={**os.environ, "LISTEN_FDS": str(len(passed)), **variables})

    def prints(self, text, started):
        end = time.monotonic() + SECONDS_MAX
        while text not in self.log.read_text():
            if started.poll() is not None and text not in self.log.read_text():
                return False
            self.assertLess(time.monotonic(), end, self.log.read_text())
            time.sleep(0.02)
        return True

    def listen(self, family, address):
        made = socket.socket(family, socket.SOCK_STREAM)
        self.addCleanup(made.close)
        made.bind(address)
        made.listen(16)
        return made

    def connect(self, to):
        """A connection to where a socket listens."""
        client = socket.socket(to.family, socket.SOCK_STREAM)
        self.addCleanup(client.close)
        client.settimeout(SECONDS_MAX)
        client.connect(to.getsockname())
        return client

    def test_clients_wait_until_it_serves_and_while_it_starts_anew(self):
        path = str(self.folder / "socket")
        tcp, unix = self.listen(socket.AF_INET, ("127.0.0.1", 0)), self.listen(socket.AF_UNIX, path)
        abstract = self.listen(socket.AF_UNIX, "\0bonsai.test.%d" % os.getpid())
        early = self.connect(tcp)  # before there is a server
        early.sendall(b"SET apple red\r\n")
        first = self.pass_sockets([tcp, unix, abstract], "--listen=systemd")
        self.assertEqual(early.recv(100), b"+OK\r\n")
        self.assertTrue(self.prints("ready: ", first), self.log.read_text())
        self.assertIn(f"127.0.0.1:{tcp.getsockname()[1]}, unix:{path}, unix:@bonsai.test.", self.log.read_text())
        for each in (unix, abstract):
            self.assertEqual(ask(self.connect(each), "GET apple"), "$3\r\nred")
        self.assertEqual(self.stop(first), 0)
        self.assertTrue(os.path.exists(path), "the file of the socket is not the server's")
        between = self.connect(unix)
        between.sendall(b"GET apple\r\n")
        self.pass_sockets([tcp, unix], f"--listen=unix:{self.folder}/own,systemd")
        self.assertEqual(between.recv(100), b"$3\r\nred\r\n")
        own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(own.close)
        own.connect(f"{self.folder}/own")
        self.assertEqual(ask(own, "PING"), "+PONG")

    def test_it_says_when_it_serves(self):
        heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(heard.close)
        heard.bind(str(self.folder / "notify"))
        heard.settimeout(SECONDS_MAX)
        unix = self.listen(socket.AF_UNIX, str(self.folder / "socket"))
        server = self.pass_sockets([unix], "--listen=systemd", NOTIFY_SOCKET=str(self.folder / "notify"))
        self.assertEqual(heard.recv(100), b"READY=1")
        self.stop(server)
        self.assertEqual(heard.recv(100), b"STOPPING=1")

    def refused(self, passed, *flags):
        started = self.pass_sockets(passed, *flags)
        self.assertEqual(started.wait(SECONDS_MAX), 2, self.log.read_text())
        return self.log.read_text()

    def test_refusals_name_the_remedy(self):
        unix = self.listen(socket.AF_UNIX, str(self.folder / "socket"))
        self.assertIn("--listen=systemd is for a .socket unit", self.refused([], "--listen=systemd"))
        self.assertIn("1 sockets were passed, and nothing would serve them; add --listen=systemd",
                      self.refused([unix], f"--listen=unix:{self.folder}/own"))
        self.assertIn("named twice", self.refused([unix], "--listen=systemd,systemd"))
        everywhere = self.listen(socket.AF_INET, ("0.0.0.0", 0))
        self.assertIn("add --password_file=FILE", self.refused([everywhere], "--listen=systemd"))
        accepted = self.connect(unix)
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(datagrams.close)
        for wrong in (accepted, datagrams):
            self.assertIn("the descriptor 4 that was passed is no listening socket",
                          self.refused([unix, wrong], "--listen=systemd"))
        with (self.folder / "file").open("w") as file:
            self.assertIn("no listening socket", self.refused([file], "--listen=systemd"))

    @unittest.skipUnless(shutil.which("systemd-socket-activate"), "scripts/setup.sh test")
    def test_systemd_socket_activate(self):
        path = str(self.folder / "socket")
        started = self.spawn(["systemd-socket-activate", "-l", path, self.program, *self.flags, "--listen=systemd"])
        self.assertTrue(self.prints("Listening on", started), self.log.read_text())
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(client.close)
        client.settimeout(SECONDS_MAX)
        client.connect(path)  # the server is started by this
        self.assertEqual(ask(client, "SET apple red"), "+OK")
        self.assertEqual(self.stop(started), 0)  # systemd-socket-activate has become the server

    @unittest.skipUnless(shutil.which("systemd-analyze"), "scripts/setup.sh test")
    def test_the_units_are_sound(self):
        for name in ("bonsai-server.service", "bonsai-server.socket"):
            text = (ROOT / "conf" / name).read_text()
            (self.folder / name).write_text(text.replace("/usr/local/bin/bonsai-server", self.program))
        done = subprocess.run(["systemd-analyze", "verify", str(self.folder / "bonsai-server.service")],
                              capture_output=True, text=True, timeout=SECONDS_MAX)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    Activation.program = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
