# SPDX-License-Identifier: Apache-2.0
"""testing/library_driver.cc, compiled against the library of a build: one driver for builds of any commit whose public
interface it fits. The source is compiled once per build and not once for all, because the layout of options may differ.

A build is the folder that CMake builds in; its source is the folder that CMakeCache.txt names, for example a worktree
of an earlier commit (`git worktree add`), with the target bonsai_library built."""
import os
import pathlib
import re
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "testing/library_driver.cc"


def missing(builds):
    """What to do about the first build without a library; None: each has one."""
    for build in builds:
        if not (build / "libbonsai.so").exists():
            return f"{build}/libbonsai.so is missing; run cmake --build {build} --target bonsai_library"
    return None


def source_of(build):
    found = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    return pathlib.Path(found[1])


def compiled(builds, folder):
    """The driver's programs, one for each build, in `folder`."""
    programs = []
    for i, build in enumerate(builds):
        build = build.resolve()
        programs.append(pathlib.Path(folder) / f"driver-{i}")
        subprocess.run(
            [os.environ.get("CXX", "g++"), "-std=c++20", "-O2", f"-I{source_of(build)}/include", str(SOURCE), "-o",
             str(programs[-1]), f"-L{build}", "-lbonsai", f"-Wl,-rpath,{build}", "-pthread"], check=True)
    return programs
