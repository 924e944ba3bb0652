#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes copies of sources in which a test can switch off single rules of a protocol, or which a study measures.

  scripts/mutate.py --room index --out build/release/mutants
  scripts/mutate.py --patches bench/studies/patched --out build/release/patched

Mutants: for each list ROOM/testing/mutants/FILE.mutants a copy of ROOM/FILE is written to OUT/ROOM/FILE. The product's
own text so shows nothing but the right protocol, and each rule stands once more beside the tests, with what its loss
looks like.

A list is a line of description, then blocks:

  @@ kNoHelp, kHelpLate
   a line that stays
  -a line that goes
  +a line that takes its place, with mutant(kNoHelp) or the like in it

The lines that stay and go must stand in the source exactly so, side by side, and exactly once. Each name of a block's
head must stand in the lines that it adds, and each rule that ROOM/testing/mutants.h names must have a block. Whatever
breaks this fails the build, with the names of the mutant and the file.

Patches of a study: the list FOLDER/ROOM/FILE.patches gives the copy OUT/ROOM/FILE. The same holds for them, but the
names are those of the functions that FOLDER/patches.h declares as [[nodiscard]]; the added lines call them.
"""
import argparse
import pathlib
import re
import sys
from collections import namedtuple

ROOT = pathlib.Path(__file__).resolve().parent.parent

Block = namedtuple("Block", "names old new")

# What a header declares, how an added line asks for it, and what a message calls that.
Kind = namedtuple("Kind", "declared asked example")
MUTANTS = Kind(r"^\s*(k\w+) = (?:1u|uint64_t\{1\}) <<", r"\bmutant\([^()]*\b{}\b", "mutant({})")
PATCHES = Kind(r"^\[\[nodiscard\]\] (?:inline )?[\w:]+ (\w+)\(", r"\b{}\(", "{}()")


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


def mutated(source, blocks, name, kind):
    """Returns the source with all blocks applied. Blocks may be adjacent, but must not overlap."""
    lines = source.splitlines()
    found = []
    for block in blocks:
        names = ", ".join(block.names)
        added = "\n".join(block.new)
        for each in block.names:
            if not re.search(kind.asked.format(each), added):
                raise Misfit(f"{names}: no line added to {name} asks for {kind.example.format(each)}")
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


def copy_all(root, lists, header, kind, out):
    """Writes a copy for each list; `lists`: (the list's path, the source's name)."""
    declared = set(re.findall(kind.declared, (root / header).read_text(), re.MULTILINE))
    applied = set()
    for path, name in lists:
        blocks = blocks_of(path.read_text(), path.name)
        for block in blocks:
            applied.update(block.names)
        copy = out / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        head = f'// {name}, changed by scripts/mutate.py as {path.name} says.\n#include "{header}"\n'
        copy.write_text(head + mutated((root / name).read_text(), blocks, name, kind))
    for rule in sorted(declared ^ applied):
        raise Misfit(f"{rule} is named by {header} or by a block beside it, but not by both")


def mutate(root, room, out):
    lists = [(path, f"{room}/{path.stem}") for path in sorted((root / room / "testing" / "mutants").glob("*.mutants"))]
    copy_all(root, lists, f"{room}/testing/mutants.h", MUTANTS, out)


def patch(root, folder, out):
    lists = [(path, path.relative_to(root / folder).with_suffix("").as_posix())
             for path in sorted((root / folder).rglob("*.patches"))]
    copy_all(root, lists, f"{folder}/patches.h", PATCHES, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--room", help="the room whose testing/mutants are applied")
    what.add_argument("--patches", metavar="FOLDER", help="the folder of a study's patches")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        if arguments.room:
            mutate(ROOT, arguments.room, arguments.out)
        else:
            patch(ROOT, arguments.patches, arguments.out)
    except (Misfit, OSError) as misfit:
        sys.exit(f"mutate.py: {misfit}")


if __name__ == "__main__":
    main()
