# SPDX-License-Identifier: Apache-2.0
"""widen_socket.py changes the socket of another process, and only that one, and reports missing rights."""
import os
import pathlib
import socket
import subprocess
import sys
import unittest

WIDEN = pathlib.Path(__file__).resolve().parent / "testbed" / "widen_socket.py"


def bound():
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    return udp


def buffer_bytes(udp):
    return udp.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


class WidenSocketTest(unittest.TestCase):
    def widen(self, pid, port):
        return subprocess.run([sys.executable, WIDEN, str(pid), str(port)], capture_output=True, text=True,
                              check=True).stdout

    def test_only_the_socket_at_the_port_gets_a_larger_buffer(self):
        with bound() as wanted, bound() as other:
            narrow = buffer_bytes(wanted)
            said = self.widen(os.getpid(), wanted.getsockname()[1])
            if "will lose packets" in said:
                self.skipTest(f"this user may not reach into its parent: {said}")
            self.assertEqual("1 sockets widened\n", said)
            self.assertGreaterEqual(buffer_bytes(wanted), narrow)
            if os.geteuid() == 0:
                self.assertGreater(buffer_bytes(wanted), 8 << 20)
            self.assertEqual(narrow, buffer_bytes(other))

    def test_a_process_that_is_gone_is_no_error(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        self.assertIn("will lose packets", self.widen(gone.pid, 1))


if __name__ == "__main__":
    unittest.main()
