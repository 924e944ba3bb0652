#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes copies of sources in which a test can switch off single rules of a protocol.

  scripts/mutate.py --room index --out build/release/mutants

For each list ROOM/testing/mutants/FILE.mutants a copy of ROOM/FILE is written to OUT/ROOM/FILE. The product's own text
so shows nothing but the right protocol, and each rule stands once more beside the tests, with what its loss looks like.

A list is a line of description, then blocks:

  @@ kNoHelp, kHelpLate
   a line that stays
  -a line that goes
  +a line that takes its place, with mutant(kNoHelp) or the like in it

The lines that stay and go must stand in the source exactly so, side by side, and exactly once. Each name of a block's
head must stand in the lines that it adds, and each rule that ROOM/testing/mutants.h names must have a block. Whatever
breaks this fails the build, with the names of the mutant and the file.
"""
import argparse
import pathlib
import re
import sys
from collections import namedtuple

ROOT = pathlib.Path(__file__).resolve().parent.parent

Block = namedtuple("Block", "names old new")


class Misfit(Exception):
    """A list that does not apply; the message names it and the reason."""


def blocks_of(text, name):
    blocks = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("@@ "):
            blocks.append(Block([each.strip() for each in line[3:].split(",")], [], []))
        elif blocks and line[:1] in (" ", "-", "+"):
            if line[0] != "+":
                blocks[-1].old.append(line[1:])
            if line[0] != "-":
                blocks[-1].new.append(line[1:])
        elif line and (blocks or number > 1):
            raise Misfit(f"{name}:{number}: a line of a block begins with ' ', '-' or '+'")
    return blocks


def mutated(source, blocks, name):
    """Returns the source with all blocks applied. Blocks may be adjacent, but must not overlap."""
    lines = source.splitlines()
    found = []
    for block in blocks:
        names = ", ".join(block.names)
        added = "\n".join(block.new)
        for each in block.names:
            if not re.search(rf"\bmutant\([^()]*\b{each}\b", added):
                raise Misfit(f"{names}: no line added to {name} asks for mutant({each})")
        size = len(block.old)
        at = [i for i in range(len(lines) - size + 1) if size and lines[i:i + size] == block.old]
        if len(at) != 1:
            raise Misfit(f"{names}: the text to replace stands {len(at)} times in {name} instead of once; "
                         f"bring its list up to date: {block.old[:1]}")
        found.append((at[0], size, block))
    found.sort(key=lambda each: each[:2])
    for (at, size, block), (next_at, _, following) in zip(found, found[1:]):
        if at + size > next_at:
            raise Misfit(f"{block.names} and {following.names} replace the same text of {name}; join them")
    for at, size, block in reversed(found):
        lines[at:at + size] = block.new
    return "\n".join(lines) + "\n"


def mutate(root, room, out):
    folder = root / room / "testing" / "mutants"
    declared = (root / room / "testing" / "mutants.h").read_text()
    rules = set(re.findall(r"^\s*(k\w+) = 1u <<", declared, re.MULTILINE))
    applied = set()
    for path in sorted(folder.glob("*.mutants")):
        name = f"{room}/{path.stem}"
        blocks = blocks_of(path.read_text(), path.name)
        for block in blocks:
            applied.update(block.names)
        copy = out / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        head = f'// {name} with mutants, made by scripts/mutate.py.\n#include "{room}/testing/mutants.h"\n'
        copy.write_text(head + mutated((root / name).read_text(), blocks, name))
    for rule in sorted(rules ^ applied):
        raise Misfit(f"{rule} is named by {room}/testing/mutants.h or by a block beside it, but not by both")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        mutate(ROOT, arguments.room, arguments.out)
    except (Misfit, OSError) as misfit:
        sys.exit(f"mutate.py: {misfit}")


if __name__ == "__main__":
    main()
