#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pools that several nodes hold, over Soft-RoCE: nodes lose their power, their disk, their owner, and then all power.

Starts three guests: each is a memory node, and owners run beside. Like testbed_test.py, which has its options.
"""
import re
import sys
import threading
import time

from testbed_test import address_of, run_as_test


class Writer:
    """power_cut in a guest, which puts numbers until it ends; its last acknowledged one, and its longest pause."""

    def __init__(self, testbed, k, words):
        self.process = testbed.start("exec", k, words)
        self.acknowledged, self.longest_s, self.said = 0, 0, []
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()

    def follow(self):
        last = None
        for line in self.process.stdout:
            if not re.fullmatch(r"\d+\n", line):  # a last line may be torn
                self.said.append(line)
                continue
            now = time.monotonic()
            self.longest_s = max(self.longest_s, now - (last or now))
            last, self.acknowledged = now, int(line)

    def await_more(self, count):
        """Waits until so many further numbers are acknowledged."""
        aim = self.acknowledged + count
        for _ in range(1200):
            if self.acknowledged >= aim:
                return
            assert self.process.poll() is None, self.said
            time.sleep(0.1)
        raise AssertionError(f"the writer stands at {self.acknowledged}, and was to reach {aim}: {self.said}")


class Tests:
    """The tests in the order in which they run."""

    def __init__(self, testbed, build):
        self.testbed, self.programs, self.guest_cases = testbed, build / "tests", []
        self.bonsai = build / "bin" / "bonsai"

    def test_three_guests_are_up(self):
        self.testbed.run("up", 3, "--nvm", "64M", seconds=150)

    def serve(self, *guests):
        """Their records are on this machine, and outlive their power, as the devices do."""
        for k in guests:
            secret = self.testbed.serve(k, self.programs, self.folder(k))
        return secret

    def folder(self, k):
        return self.testbed.share / f"node{k}"

    def await_in_sync(self, k, secret, group, members):
        """Waits until all members and the witness are in sync, as guest k is told."""
        for _ in range(300):
            said = self.testbed.run("exec", k, f"{secret} {self.bonsai} groups --json --pool='{group}'", code=None)
            with_witness = re.findall(r'"state": "(\w+)"', said)
            if with_witness == ["in_sync"] * members:
                return
            time.sleep(0.3)
        raise AssertionError(f"not all members came in sync: {said}")

    def come_back(self, *guests):
        for process in [self.testbed.start("restart", k) for k in guests]:
            output, _ = process.communicate(timeout=240)
            assert process.returncode == 0, output
        return self.serve(*guests)

    def test_two_members_and_a_witness_lose_power_one_by_one_and_together(self):
        """Pools on the NVDIMMs of guests 2 and 3, a witness in guest 1, where the owner runs first."""
        secret = self.serve(1, 2, 3)
        group = f"{address_of(2)}/nvdimm|{address_of(3)}/nvdimm?witness={address_of(1)}/witness"
        self.testbed.run("exec", 2, f"{secret} {self.bonsai} create --fabric_workers=1 --log_bytes=1M --pool='{group}'",
                         seconds=120)
        words = f"{secret} {self.programs}/power_cut"
        writer = Writer(self.testbed, 1, f"{words} write '{group}' auto 1")
        for lost in (2, 3):
            writer.await_more(300)
            self.testbed.run("kill", lost)
            writer.await_more(300)
            self.come_back(lost)
            self.await_in_sync(1, secret, group, members=3)
        pause_s = writer.longest_s
        self.testbed.run("kill", 1)  # the owner and the witness
        writer.thread.join()
        found = int(self.testbed.run("exec", 2, f"{words} check '{group}' {writer.acknowledged}", seconds=240))
        self.come_back(1)
        second = Writer(self.testbed, 2, f"{words} write '{group}' auto {found + 1}")
        second.await_more(300)
        for k in (1, 2, 3):
            self.testbed.run("kill", k)
        second.thread.join()
        secret = self.come_back(1, 2, 3)
        last = int(self.testbed.run("exec", 1, f"{words} check '{group}' {second.acknowledged}", seconds=240))
        print(f"two members and a witness over Soft-RoCE: {writer.acknowledged} acknowledged through two cuts, longest "
              f"pause {pause_s:.1f} s; {found} found from another guest without owner and witness; "
              f"{second.acknowledged} acknowledged before all power was cut, {last} found")

    def sums(self, pool):
        """What the guests hold; one element: the same."""
        return {self.testbed.run("exec", k, f"busybox sha256sum {pool}").split()[0] for k in (1, 2, 3)}

    def test_a_fresh_node_takes_a_lost_one_s_place(self):
        """Three members in the guests' memory, which a cut empties."""
        for k in (1, 2, 3):
            self.testbed.serve(k, self.programs)
        secret = f"BONSAI_SECRET_FILE={self.testbed.share / 'secret'}"
        group = "|".join(f"{address_of(k)}/three" for k in (1, 2, 3))
        writer = Writer(self.testbed, 1, f"{secret} {self.programs}/power_cut write '{group}' auto 1")
        writer.await_more(300)
        self.testbed.run("kill", 3)
        writer.await_more(300)
        self.testbed.run("restart", 3, seconds=150)
        self.testbed.serve(3, self.programs)
        self.await_in_sync(2, secret, group, members=3)
        writer.await_more(100)
        self.testbed.run("exec", 1, "busybox killall -9 power_cut")
        writer.thread.join()
        words = f"{secret} {self.programs}/power_cut check '{group}' {writer.acknowledged}"
        found = self.testbed.run("exec", 3, words, seconds=240)
        pool = "/dev/shm/pools/three"
        assert len(self.sums(pool)) == 1, "the members differ"
        self.testbed.run("exec", 2, f"busybox dd if=/dev/urandom of={pool} bs=4096 seek=4000 count=20 conv=notrunc")
        assert len(self.sums(pool)) == 2, "nothing was damaged"
        said = self.testbed.run("exec", 1, f"{secret} {self.bonsai} scrub --json --pool='{group}'", seconds=240)
        repaired = [int(found) for found in re.findall(r'"repaired_bytes": (\d+)', said)]
        assert repaired == [0, 20 * 4096, 0], said
        assert len(self.sums(pool)) == 1, "scrubbing has left members that differ"
        print(f"three members over Soft-RoCE, one lost with its disk: acknowledged {writer.acknowledged}, found "
              f"{found.strip()}; all members equal byte for byte, also after 80 KiB of one were damaged and scrubbed; "
              f"longest pause {writer.longest_s:.1f} s")

    def test_down_leaves_nothing(self):
        self.testbed.run("down")


if __name__ == "__main__":
    sys.exit(run_as_test(Tests, __doc__))
