# SPDX-License-Identifier: Apache-2.0
"""cmake/registration.cmake: a test or fuzz file without a target fails configuration, with a message that names the
remedy."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

REGISTRATION = pathlib.Path(__file__).resolve().parent.parent / "cmake" / "registration.cmake"

PROJECT = f"""cmake_minimum_required(VERSION 3.25)
project(sample LANGUAGES NONE)
set(BONSAI_WERROR ON)
add_subdirectory(room)
include({REGISTRATION})
bonsai_require_registration(room)
"""


@unittest.skipIf(shutil.which("cmake") is None, "cmake is not installed")
class RegistrationTest(unittest.TestCase):
    def configure(self, registered, *files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "CMakeLists.txt").write_text(PROJECT)
            for file in files:
                path = root / "room" / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("")
            (root / "room" / "CMakeLists.txt").write_text(f"add_custom_target(tests SOURCES {registered})\n")
            done = subprocess.run(["cmake", "-S", root, "-B", root / "build"], capture_output=True, text=True)
            return done.returncode, " ".join(done.stderr.split())

    def test_all_registered(self):
        files = ("a_test.cc", "below/b_fuzz.cc")
        self.assertEqual((0, ""), self.configure(" ".join(files), *files, "product.cc"))

    def test_a_forgotten_test(self):
        code, errors = self.configure("a_test.cc", "a_test.cc", "below/forgotten_test.cc")
        self.assertNotEqual(0, code)
        self.assertIn("room/below/forgotten_test.cc is registered with no target", errors)
        self.assertIn("Name it in room/CMakeLists.txt", errors)

    def test_a_forgotten_fuzz_test(self):
        self.assertNotEqual(0, self.configure("a_test.cc", "a_test.cc", "forgotten_fuzz.cc")[0])


if __name__ == "__main__":
    unittest.main()
