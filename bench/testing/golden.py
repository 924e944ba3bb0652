#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden numbers of YCSB's generators, computed from their definitions, independently of generators.cc.

    golden.py            prints golden.h
    golden.py --check    exits 1 when golden.h is not what this program prints

Definitions: Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD 1994), section 3.2, for the
Zipf draw; Fowler, Noll and Vo for the hash (FNV-1a, 64 bits); YCSB for the constants and how they are combined;
Hormann and Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions" (TOMACS 1996)
for the plain Zipf; Blackman and Vigna for xoshiro256** and splitmix64, which drive whole requests.
"""

import itertools
import math
import os
import struct
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


def uniform(u, low, high):
    return low + math.floor(u * (high - low + 1))


def hotspot(which, u, items, hot_data, hot_requests):
    hot = int(items * hot_data)
    return uniform(u, 0, hot - 1) if which < hot_requests else uniform(u, hot, items - 1)


def exponential(u, percentile, reach):
    """The distance from the newest: percentile percent of the draws are below reach."""
    gamma = -math.log(1 - percentile / 100) / reach
    return math.floor(-math.log(u) / gamma)


def plain_zipf(draws, items, alpha):
    """Rejection-inversion: `draws` yields numbers from [0, 1)."""

    def density(x):
        return x**-alpha

    def area(x):  # an antiderivative of the density
        return math.log(x) if alpha == 1 else x ** (1 - alpha) / (1 - alpha)

    def area_inverse(y):
        return math.exp(y) if alpha == 1 else (y * (1 - alpha)) ** (1 / (1 - alpha))

    first, last = area(1.5) - density(1), area(items + 0.5)
    shortcut = 2 - area_inverse(area(2.5) - density(2))
    for u in draws:
        y = last + u * (first - last)
        x = area_inverse(y)
        k = min(max(math.floor(x + 0.5), 1), items)
        if k - x <= shortcut or y >= area(k + 0.5) - density(k):
            return k - 1
    raise AssertionError("no draw was accepted")


def key_name(number, hashed, padding):
    return "user" + str(fnv1a(number) if hashed else number).zfill(padding)


def mix(x):
    """One step of splitmix64."""
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def randoms(seed):
    """The doubles of xoshiro256**, its state filled by splitmix64."""
    state = []
    for _ in range(4):
        seed = mix(seed)
        state.append(seed)

    def rotated(x, n):
        return (x << n | x >> 64 - n) % 2**64

    while True:
        yield (rotated(state[1] * 5 % 2**64, 7) * 9 % 2**64 >> 11) * 2.0**-53
        shifted = state[1] << 17 & 2**64 - 1
        state[2] ^= state[0]
        state[3] ^= state[1]
        state[1] ^= state[2]
        state[0] ^= state[3]
        state[2] ^= shifted
        state[3] = rotated(state[3], 45)


def redraws(u):
    """u, and the draws that follow when it is refused: each is made of the bits of the one before."""
    while True:
        yield u
        u = next(randoms(struct.unpack("<Q", struct.pack("<d", u))[0]))


READ, UPDATE, INSERT, SCAN, RMW, DELETE = range(6)
READY, BEHIND_NEWEST, IF_INSERTED, NEW = range(4)
RECORDS, OPERATIONS, THREADS, THREAD, SEED = 1000, 1000, 2, 1, 42
WORKLOADS = {  # shares in YCSB's order, distribution, and the most a scan takes
    "A": ((0.5, 0.5, 0, 0, 0, 0), "zipfian", 100),
    "B": ((0.95, 0.05, 0, 0, 0, 0), "zipfian", 100),
    "C": ((1, 0, 0, 0, 0, 0), "zipfian", 100),
    "D": ((0.95, 0, 0.05, 0, 0, 0), "latest", 100),
    "E": ((0, 0, 0.05, 0.95, 0, 0), "zipfian", 100),
    "F": ((0.5, 0, 0, 0, 0.5, 0), "zipfian", 100),
    "Uniform": ((0.4, 0.1, 0.2, 0.1, 0.1, 0.1), "uniform", 10),
    "Hotspot": ((0.4, 0.1, 0.2, 0.1, 0.1, 0.1), "hotspot", 10),
    "Exponential": ((0.4, 0.1, 0.2, 0.1, 0.1, 0.1), "exponential", 10),
    "PlainZipf": ((0.4, 0.1, 0.2, 0.1, 0.1, 0.1), "plain_zipf", 10),
    "Inserting": ((0.5, 0, 0.5, 0, 0, 0), "zipfian", 10),
    "Sequential": ((0.9, 0, 0.1, 0, 0, 0), "sequential", 10),
}


def chosen_number(distribution, u, turn, end, insert_share):
    if distribution == "zipfian":
        keys = RECORDS + int(OPERATIONS * insert_share * 2) + 1
        for draw in redraws(u):
            number = fnv1a(zipf(draw, SCRAMBLED_ITEMS, SCRAMBLED_ZETA, SCRAMBLED_ITEMS)) % keys
            if number < end:
                return number
    if distribution == "plain_zipf":
        return plain_zipf(redraws(u), RECORDS, 1.2)
    if distribution == "hotspot":
        which, where = itertools.islice(redraws(u), 2)
        return hotspot(which, where, RECORDS, 0.2, 0.8)
    if distribution == "sequential":
        return (turn * THREADS + THREAD) % RECORDS
    return uniform(u, 0, RECORDS - 1)


def requests(shares, distribution, scan_most, count=40):
    """(kind, source, key, scan length) of a thread's first requests."""
    u = randoms(mix(SEED) + THREAD)
    inserted = 0
    for turn in range(count):
        left, kind = next(u), None
        for kind, share in enumerate(shares):
            if share > 0 and left < share:
                break
            left -= share
        key_u = next(u)
        length = uniform(next(u), 1, scan_most) if kind == SCAN else 0
        end = RECORDS + inserted * THREADS
        if kind == INSERT:
            inserted += 1
            yield kind, NEW, 0, 0
        elif distribution == "latest":
            yield kind, BEHIND_NEWEST, zipf(key_u, end - 1, zeta(end - 1), RECORDS - 1), length
        elif distribution == "exponential":
            offsets = (exponential(draw, 95, RECORDS * 0.8571428571) for draw in redraws(key_u))
            yield kind, BEHIND_NEWEST, next(offset for offset in offsets if offset < end), length
        else:
            number = chosen_number(distribution, key_u, turn, end, shares[INSERT])
            known = number < RECORDS
            yield kind, READY if known else IF_INSERTED, fnv1a(number) if known else number, length


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


def request_text(request):
    return "{%d, %d, %du, %du}" % request


def header():
    hashed = [0, 1, 2, 255, 256, 999999, 10**10, 2**32, 2**63, 2**64 - 1]
    zeta_1000 = zeta(1000)
    newest = [999 + 7 * i for i in range(len(DRAWS))]  # grows while requests are drawn
    text = "// SPDX-License-Identifier: Apache-2.0\n"
    text += "// Written by golden.py; do not edit. Golden numbers of YCSB's generators.\n"
    text += "#ifndef BONSAI_BENCH_TESTING_GOLDEN_H_\n#define BONSAI_BENCH_TESTING_GOLDEN_H_\n\n#include <cstdint>\n\n"
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
    text += "// Uniform over [5, 1004], YCSB's scan lengths; over [1, 100] by Zipf: 1 + Zipf over 100.\n"
    text += array("kUniform5To1004", "uint64_t", [uniform(u, 5, 1004) for u in DRAWS], unsigned)
    text += array("kZipf100", "uint64_t", [zipf(u, 100, zeta(100), 100) for u in DRAWS], unsigned)
    text += "// YCSB's hotspot: a fifth of 1000 records gets 0.8 of the requests; the second draw is the next one.\n"
    pairs = zip(DRAWS, DRAWS[1:] + DRAWS[:1])
    text += array("kHotspot1000", "uint64_t", [hotspot(which, u, 1000, 0.2, 0.8) for which, u in pairs], unsigned)
    text += "// YCSB's exponential: 95 % of the draws below 857.1428571; the first draw, 0, is left out.\n"
    text += array("kExponential", "uint64_t", [exponential(u, 95, 857.1428571) for u in DRAWS[1:]], unsigned)
    text += "// Plain Zipf over 1000 items; entry i takes draw i and, when that is refused, those after it.\n"
    for name, alpha in (("050", 0.5), ("099", 0.99), ("100", 1.0), ("120", 1.2), ("150", 1.5)):
        values = [plain_zipf(itertools.cycle(DRAWS[i:] + DRAWS[:i]), 1000, alpha) for i in range(len(DRAWS))]
        text += array("kPlainZipf" + name, "uint64_t", values, unsigned)
    text += "// Keys of YCSB: number 0, 1, 42 hashed; ordered; ordered with zeropadding=8.\n"
    names = [key_name(n, h, p) for h, p in ((True, 1), (False, 1), (False, 8)) for n in (0, 1, 42)]
    text += array("kKeyNames", "const char*", names, lambda name: '"%s"' % name)
    whole = (THREAD, THREADS, RECORDS, OPERATIONS, SEED)
    text += "// Requests of thread %d of %d, %d records, %d operations in all, seed %d.\n" % whole
    text += "struct Request {\n  int kind;\n  int source;\n  uint64_t key;\n  uint32_t scan_length;\n};\n"
    for name, workload in WORKLOADS.items():
        text += array("kRequests" + name, "Request", list(requests(*workload)), request_text)
    text += "// clang-format on\n\n}  // namespace bonsai::bench::golden\n\n#endif  // BONSAI_BENCH_TESTING_GOLDEN_H_\n"
    return text


def main():
    if sys.argv[1:] == ["--check"]:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden.h")
        with open(path, encoding="utf-8") as committed:
            if committed.read() == header():
                return 0
        here = "bench/testing/golden"
        print(f"golden.h differs from what golden.py computes; run: python3 {here}.py > {here}.h")
        return 1
    sys.stdout.write(header())
    return 0


if __name__ == "__main__":
    sys.exit(main())
