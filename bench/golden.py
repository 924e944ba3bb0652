#!/usr/bin/env python3
"""Golden numbers of YCSB's generators, computed from their definitions, independently of generators.cc.

    golden.py            prints golden.h
    golden.py --check    exits 1 when golden.h is not what this program prints

Definitions: Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD 1994), section 3.2, for the
Zipf draw; Fowler, Noll and Vo for the hash (FNV-1a, 64 bits); YCSB for the constants and how they are combined.
"""

import math
import os
import sys

THETA = 0.99
SCRAMBLED_ITEMS = 10**10 + 1  # YCSB's range 0..10^10 is inclusive
SCRAMBLED_ZETA = 26.46902820178302
# Draws from [0, 1): ends, the borders of the first items, and numbers of the golden ratio's sequence.
DRAWS = [0.0, 0.01, 0.03, 0.0377, 0.0378, 0.0379, 0.05, 0.0567, 0.06, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999999]
DRAWS += [(i * 0.6180339887498949) % 1.0 for i in range(1, 34)]


def fnv1a(value):
    digest = 0xCBF29CE484222325
    for octet in value.to_bytes(8, "little"):
        digest = ((digest ^ octet) * 0x100000001B3) % 2**64
    signed = digest - 2**64 if digest >= 2**63 else digest
    return abs(signed)


def zeta(items):
    return math.fsum((i + 1.0) ** -THETA for i in range(items))


def zipf(u, items, zeta_n, items_of_eta):
    if u * zeta_n < 1.0:
        return 0
    if u * zeta_n < 1.0 + 2.0**-THETA:
        return 1
    eta = (1.0 - (2.0 / items_of_eta) ** (1.0 - THETA)) / (1.0 - (1.0 + 2.0**-THETA) / zeta_n)
    return int(items * (eta * u - eta + 1.0) ** (1.0 / (1.0 - THETA)))


def array(name, kind, values, spell=str):
    lines, line = [], "   "
    for value in values:
        word = " " + spell(value) + ","
        if len(line) + len(word) > 118:
            lines.append(line)
            line = "   "
        line += word
    lines.append(line)
    return "inline constexpr %s %s[] = {\n%s\n};\n" % (kind, name, "\n".join(lines))


def unsigned(value):
    return "%du" % value


def header():
    hashed = [0, 1, 2, 255, 256, 999999, 10**10, 2**32, 2**63, 2**64 - 1]
    zeta_1000 = zeta(1000)
    newest = [999 + 7 * i for i in range(len(DRAWS))]  # grows while requests are drawn
    text = "// Written by golden.py; do not edit. Golden numbers of YCSB's generators.\n"
    text += "#ifndef BONSAI_BENCH_GOLDEN_H_\n#define BONSAI_BENCH_GOLDEN_H_\n\n#include <cstdint>\n\n"
    text += "namespace bonsai::bench::golden {\n\n// clang-format off\n"
    text += array("kHashed", "uint64_t", hashed, unsigned)
    text += array("kHashes", "uint64_t", [fnv1a(value) for value in hashed], unsigned)
    text += "inline constexpr double kZeta1000 = %r;\n" % zeta_1000
    text += array("kDraws", "double", DRAWS, repr)
    text += "// Zipf over 1000 items.\n"
    text += array("kZipf1000", "uint64_t", [zipf(u, 1000, zeta_1000, 1000) for u in DRAWS], unsigned)
    text += "// YCSB's zipfian over 1001 keys, the key space of a run with 1000 records and no inserts.\n"
    text += array(
        "kScrambled1001",
        "uint64_t",
        [fnv1a(zipf(u, SCRAMBLED_ITEMS, SCRAMBLED_ZETA, SCRAMBLED_ITEMS)) % 1001 for u in DRAWS],
        unsigned,
    )
    text += "// YCSB's latest while the newest record moves on from 999.\n"
    text += array("kNewest", "uint64_t", newest, unsigned)
    text += array("kBehind", "uint64_t", [zipf(u, n, zeta(n), 999) for u, n in zip(DRAWS, newest)], unsigned)
    text += "// clang-format on\n\n}  // namespace bonsai::bench::golden\n\n#endif  // BONSAI_BENCH_GOLDEN_H_\n"
    return text


def main():
    if sys.argv[1:] == ["--check"]:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden.h")
        with open(path, encoding="utf-8") as committed:
            if committed.read() == header():
                return 0
        print("golden.h differs from what golden.py computes; run: python3 bench/golden.py > bench/golden.h")
        return 1
    sys.stdout.write(header())
    return 0


if __name__ == "__main__":
    sys.exit(main())
