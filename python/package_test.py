#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs a build of Bonsai and the Python package as a user would, in folders of its own, and tests the package.

usage: package_test.py BUILD

Exit code 77 (skipped, with the reason) where the package's build tools cannot be fetched from PyPI.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD_TOOLS = ["scikit-build-core>=0.10", "nanobind>=2.2", "pytest"]
SKIPPED = 77
STEP_SECONDS_MAX = 900


def run(*command, **options):
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, timeout=STEP_SECONDS_MAX, **options)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="bonsai_python.") as folder:
        place = pathlib.Path(folder)
        python = place / "venv" / "bin" / "python"
        run("/usr/bin/python3", "-m", "venv", place / "venv")
        try:
            run(python, "-m", "pip", "install", "--quiet", "--retries=2", *BUILD_TOOLS)
        except subprocess.CalledProcessError:
            print("skipped: PyPI is not reachable, or lacks", *BUILD_TOOLS)
            return SKIPPED
        run("cmake", "--install", build, "--prefix", place / "prefix", stdout=subprocess.DEVNULL)
        source = shutil.copytree(HERE, place / "source")
        run(python, "-m", "pip", "install", "--quiet", "--no-build-isolation", source,
            env={"PATH": f"{place}/venv/bin:/usr/bin:/bin", "CMAKE_PREFIX_PATH": str(place / "prefix")})
        shutil.rmtree(place / "prefix")  # the package has the library inside
        run(python, "-m", "pytest", "-q", source / "tests", cwd=place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
