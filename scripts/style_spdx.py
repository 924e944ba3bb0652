"""The rule about licences: every source file says under which it is given, in its first line, or in the second where
the first is for the shell. `scripts/style.py --spdx` adds what is missing."""
import pathlib

LICENCE = "SPDX-License-Identifier: Apache-2.0"
RULES = ["spdx"]
SLASHES, HASHES = {".h", ".cc", ".cpp"}, {".py", ".sh", ".cmake"}


def line_of(path):
    """The line that the file at `path` needs; None where there is no place for one."""
    path = pathlib.PurePosixPath(path)
    if path.suffix == ".c" or path.parts[:2] == ("include", "bonsai") and path.name == "c.h":
        return f"/* {LICENCE} */"
    if path.suffix in SLASHES:
        return f"// {LICENCE}"
    if path.suffix in HASHES or path.name == "CMakeLists.txt" or path.parts == (".ci", "run"):
        return f"# {LICENCE}"
    return None


def is_missing(path, text):
    line = line_of(path)
    return line is not None and line not in text.splitlines()[:2]


def with_line(path, text):
    if not is_missing(path, text):
        return text
    shell, rest = text.split("\n", 1) if text.startswith("#!") else (None, text)
    return (f"{shell}\n" if shell else "") + line_of(path) + "\n" + rest
