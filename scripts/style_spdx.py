# SPDX-License-Identifier: Apache-2.0
"""The rule about licences: every source file names its licence in its first line, or in the second if the first is
for the shell. `scripts/style.py --spdx` adds missing lines. The rule is in force once style.py itself has its line."""
import pathlib

import style_prose

LICENCE = "SPDX-License-Identifier: Apache-2.0"
RULES = ["spdx"]
SLASHES, HASHES = {".h", ".cc", ".cpp"}, {".py", ".sh", ".cmake"}


def line_of(path):
    """The line that the file at `path` needs; None if it has no place for one."""
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


def is_in_force(sources):
    return any(str(source.path) == "scripts/style.py" and not is_missing(source.path, source.text)
               for source in sources)


def check_tree(sources):
    if is_in_force(sources):
        for source in sources:
            if is_missing(source.path, source.text):
                yield style_prose.Breach(source.path, 1, "spdx", "no licence: run scripts/style.py --spdx")


def add_lines(root, sources):
    """Adds the line to the files of the tree that lack it; returns their number."""
    without = [source for source in sources if is_missing(source.path, source.text)]
    for source in without:
        (root / source.path).write_text(with_line(source.path, source.text))
    return len(without)


def with_line(path, text):
    if not is_missing(path, text):
        return text
    shell, rest = text.split("\n", 1) if text.startswith("#!") else (None, text)
    return (f"{shell}\n" if shell else "") + line_of(path) + "\n" + rest
