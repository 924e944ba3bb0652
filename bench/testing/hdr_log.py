# SPDX-License-Identifier: Apache-2.0
"""A decoder of HdrHistogram's interval logs, written from the description of the format and independent of the
program's encoder: log format 1.3, histograms in the V2 compressed encoding.
"""
import base64
import struct
import zlib

LEGEND = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'


class Histogram:
    def __init__(self, counts, digits, lowest, highest):
        self.counts = counts  # {index: count}
        self.digits, self.lowest, self.highest = digits, lowest, highest
        # As many sub-buckets as give single-unit resolution up to 2 * 10^digits.
        self.sub_buckets = 1
        while self.sub_buckets < 2 * 10**digits:
            self.sub_buckets *= 2

    def range_of(self, index):
        """The lowest and highest value that bucket `index` counts."""
        half = self.sub_buckets // 2
        bucket, sub = index // half - 1, index % half + half
        if bucket < 0:
            bucket, sub = 0, sub - half
        return sub << bucket, ((sub + 1) << bucket) - 1

    def total(self):
        return sum(self.counts.values())

    def percentile(self, percent):
        wanted, seen = max(1, -(-percent * self.total() // 100)), 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen >= wanted:
                return self.range_of(index)[1]
        raise ValueError("an empty histogram has no percentiles")


def _numbers(payload):
    at = 0
    while at < len(payload):
        number, shift = 0, 0
        for turn in range(9):
            byte = payload[at]
            at += 1
            if turn == 8:
                number |= byte << 56
                break
            number |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        yield (number >> 1) ^ -(number & 1)


def decode(text):
    """A histogram out of its base64 text."""
    blob = base64.b64decode(text, validate=True)
    cookie, length = struct.unpack_from(">II", blob)
    if cookie & ~0xF0 != 0x1C849304:
        raise ValueError(f"cookie {cookie:#x} is not that of the V2 compressed encoding")
    if length != len(blob) - 8:
        raise ValueError(f"{len(blob) - 8} compressed bytes, {length} expected")
    plain = zlib.decompress(blob[8:])
    cookie, length, offset, digits, lowest, highest, ratio = struct.unpack_from(">IIIIQQd", plain)
    if cookie & ~0xF0 != 0x1C849303 or length != len(plain) - 40 or offset != 0 or ratio != 1.0:
        raise ValueError(f"header {plain[:40].hex()} is not that of a V2 histogram")
    counts, index = {}, 0
    for number in _numbers(plain[40:]):
        if number < 0:
            index -= number
        else:
            if number > 0:
                counts[index] = number
            index += 1
    return Histogram(counts, digits, lowest, highest)


def read_log(text):
    """[(start, length, max, histogram)] of a .hdr file."""
    lines = text.splitlines()
    if "#[Histogram log format version 1.3]" not in lines or LEGEND not in lines:
        raise ValueError("no format version 1.3, or no legend")
    intervals = []
    for line in lines:
        if line.startswith(("#", '"')):
            continue
        start, length, largest, blob = line.split(",")
        intervals.append((float(start), float(length), float(largest), decode(blob)))
    return intervals
