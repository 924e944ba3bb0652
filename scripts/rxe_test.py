# SPDX-License-Identifier: Apache-2.0
"""rxe.sh lists the existing devices. Where there can be none it states the reason and the alternative. Makes no
device."""
import os
import pathlib
import subprocess
import tempfile
import unittest

RXE = pathlib.Path(__file__).resolve().parent / "rxe.sh"


class RxeTest(unittest.TestCase):
    def run_rxe(self, *words, devices=(), modprobe="exit 1", rdma="exit 1", **environment):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for device in devices:
                (root / "sys/class/infiniband" / device).mkdir(parents=True)
            for name, body in (("modprobe", modprobe), ("rdma", rdma)):
                (root / name).write_text(f"#!/bin/sh\n{body}\n")
                (root / name).chmod(0o755)
            done = subprocess.run(["/bin/bash", RXE, *words], capture_output=True, text=True, env={
                **os.environ, "BONSAI_SYS": f"{root}/sys", "XDG_RUNTIME_DIR": folder,
                "PATH": f"{folder}:{os.environ['PATH']}", **environment})
            return done.returncode, done.stdout + done.stderr

    def test_devices_that_are_there_are_named(self):
        code, said = self.run_rxe("up", devices=("mlx5_0", "mlx5_1"))
        self.assertEqual(0, code, said)
        self.assertIn("mlx5_0 mlx5_1", said)

    def test_without_the_module_it_points_to_the_testbed(self):
        code, said = self.run_rxe("up", modprobe="echo Module rdma_rxe not found >&2; exit 1")
        self.assertNotEqual(0, code)
        self.assertIn("scripts/testbed.sh", said)
        if os.geteuid() == 0:
            self.assertIn("Module rdma_rxe not found", said)

    @unittest.skipIf(os.geteuid() != 0, "only root may")
    def test_the_device_that_was_made_is_named(self):
        code, said = self.run_rxe("up", "eth7", modprobe="exit 0",
                                  rdma='test "$*" = "link add rxe0 type rxe netdev eth7"')
        self.assertEqual(0, code, said)
        self.assertIn("rxe0 is up on eth7", said)

    def test_down_removes_nothing_that_up_has_not_made(self):
        code, said = self.run_rxe("down", devices=("rxe0",))
        self.assertEqual(0, code)
        self.assertIn("nothing to remove", said)


if __name__ == "__main__":
    unittest.main()
