# SPDX-License-Identifier: Apache-2.0
"""setup.sh: its list equals the packages that CMake requires, and its errors name the remedy. Installs nothing."""
import os
import pathlib
import re
import stat
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SETUP = ROOT / "scripts" / "setup.sh"

# The items that the build files require, and the packages that provide them.
PROVIDERS = {"PkgConfig": "pkg-config", "Boost": "libboost-context-dev", "absl": "libabsl-dev",
             "gflags": "libgflags-dev", "libglog": "libgoogle-glog-dev", "nlohmann_json": "nlohmann-json3-dev",
             "GTest": "libgtest-dev", "libpmem": "libpmem-dev",
             "rocksdb": "librocksdb-dev", "lmdb": "liblmdb-dev", "libisal": "libisal-dev", "ZLIB": "zlib1g-dev",
             "libcuckoo/cuckoohash_map.hh": "libcuckoo-dev", "sparsehash/dense_hash_map": "libsparsehash-dev",
             "tsl/hopscotch_map.h": "libtsl-hopscotch-map-dev",
             "libxxhash": "libxxhash-dev", "libsodium": "libsodium-dev",
             "tomlplusplus": "libtomlplusplus-dev", "libibverbs": "libibverbs-dev",
             "librdmacm": "librdmacm-dev",
             "libsystemd": "libsystemd-dev", "hiredis": "libhiredis-dev",
             "TBB": "libtbb-dev", "rapidcheck": "librapidcheck-dev", "Threads": "g++", "Python3": "python3",
             "Python": "python3-dev"}


def run(*arguments, **environment):
    return subprocess.run(["/bin/bash", SETUP, *arguments], capture_output=True, text=True,
                          env={**os.environ, **environment})


def listed(*groups):
    return {line.split()[0] for line in run("--list", *groups).stdout.splitlines()}


def in_rooms(pattern):
    """Files of the tree without build folders, where other tests make and remove folders meanwhile."""
    rooms = [folder for folder in ROOT.glob("[a-z]*/") if folder.name not in ("build", "results")]
    return [path for room in rooms for path in room.rglob(pattern)]


class SetupTest(unittest.TestCase):
    def test_every_package_that_cmake_looks_for_is_listed(self):
        files = [ROOT / "CMakeLists.txt", *ROOT.glob("cmake/*.cmake"), *in_rooms("CMakeLists.txt")]
        text = "\n".join(path.read_text() for path in files)
        wanted = set(re.findall(r"^\s*find_package\((\w+)", text, re.MULTILINE)) - {"bonsai", "nanobind"}  # by pip
        wanted |= set(re.findall(r"pkg_check_modules\(\w+ [A-Z_ ]*(\w+)\)", text))
        for engine in ROOT.glob("bench/engines/*.cc"):
            wanted |= set(re.findall(r"^// Needs: (?:package|header) (\S+)", engine.read_text(), re.MULTILINE))
        self.assertLessEqual({"GTest", "libpmem", "rocksdb"}, wanted)
        for name in wanted:
            self.assertIn(name, PROVIDERS, "name its package here")
            self.assertIn(PROVIDERS[name], listed("build", "test"))

    def test_every_package_whose_headers_are_included_is_listed(self):
        # A header may be present only because of another program's packages; it would be missing on a bare machine.
        depends = dict(line.split("\t") for line in subprocess.check_output(
            ["dpkg-query", "-W", "-f", "${Package}\\t${Depends}\\n"], text=True).splitlines())
        brought, fresh = set(), listed("build", "test")
        while fresh:
            brought |= fresh
            fresh = {name for package in fresh
                     for name in re.findall(r"(?:^|[,|] *)([\w.+-]+)", depends.get(package, ""))} - brought
        found = {}
        for path in [*in_rooms("*.h"), *in_rooms("*.cc")]:
            for header in re.findall(r"^#include <([^>]+)>", path.read_text(), re.MULTILINE):
                found.setdefault(header, path)
        self.assertIn("xxhash.h", found)
        for header, path in found.items():
            places = [place / header for place in (pathlib.Path("/usr/include"),
                                                   pathlib.Path("/usr/include/x86_64-linux-gnu"))]
            files = [str(place) for place in places if place.exists()]
            if files:  # else the header is the compiler's or ours
                owner = subprocess.check_output(["dpkg-query", "-S", files[0]], text=True).split(":")[0]
                self.assertTrue(owner in brought, f"{path} includes <{header}> of {owner}")

    def test_each_package_has_a_reason(self):
        for line in run("--list", "build", "test").stdout.splitlines():
            self.assertGreater(len(line.split(maxsplit=1)[1]), 10, line)

    def test_unknown_argument(self):
        done = run("--frobnicate")
        self.assertNotEqual(0, done.returncode)
        self.assertIn("usage", done.stderr)

    def test_without_debian_it_names_the_packages(self):
        with tempfile.TemporaryDirectory() as folder:
            self.fake(folder, "dirname", "sed", "grep", "cat")
            done = run("--check", PATH=folder, BASH_ENV="")
        self.assertNotEqual(0, done.returncode)
        self.assertIn("not a Debian system", done.stderr)
        self.assertIn("libpmem-dev", done.stderr)

    def test_missing_packages_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            query = pathlib.Path(folder) / "dpkg-query"
            query.write_text("#!/bin/sh\nexit 1\n")
            query.chmod(query.stat().st_mode | stat.S_IEXEC)
            done = run("--check", PATH=folder + ":" + os.environ["PATH"])
        self.assertNotEqual(0, done.returncode)
        self.assertIn("missing: cmake ninja-build", done.stderr)

    @staticmethod
    def fake(folder, *tools):
        for tool in tools:
            os.symlink(subprocess.check_output(["which", tool], text=True).strip(), os.path.join(folder, tool))


if __name__ == "__main__":
    unittest.main()
