#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests that need several machines: scripts/testbed.sh itself, the fabric and a store over Soft-RoCE, power cuts.

Starts two guests, runs everything in them and takes them down again. Exit code 77, and the reason in the last line,
when this machine cannot run guests; with BONSAI_TESTBED_REQUIRED=1 (continuous integration) that is a failure.
--junit FILE writes one test case per test, those of the GoogleTest programs that ran in guests included.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EXIT_SKIPPED = 77
TOOLS = ["qemu-system-x86_64", "busybox", "modprobe", "cpio", "rdma", "ndctl"]
PUPPET_PORT = 7000
DEVDAX = "/dev/dax0.0"


def reason_to_skip(build):
    if os.environ.get("BONSAI_TEST_BUDGET") == "fast":
        return "the budget is 'fast'"
    missing = [tool for tool in TOOLS if shutil.which(tool, path=os.environ["PATH"] + ":/sbin:/usr/sbin") is None]
    if missing:
        return f"{', '.join(missing)} missing (scripts/setup.sh testbed installs them)"
    if not (build / "tests" / "rdma_device_test").exists():
        return "the verbs provider was not built (scripts/setup.sh build installs what it needs)"
    cached = subprocess.run([ROOT / "scripts/testbed.sh", "fetch"], capture_output=True, text=True)
    return None if cached.returncode == 0 else cached.stderr.strip()


class Testbed:
    """A testbed in its own folder, driven by scripts/testbed.sh."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bonsai-testbed-test.")) / "state"
        self.share = self.folder / "share"
        self.environment = {**os.environ, "BONSAI_TESTBED": str(self.folder)}
        self.served = 0

    def start(self, *words):
        return subprocess.Popen([ROOT / "scripts/testbed.sh", *map(str, words)], env=self.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, *words, seconds=60, code=0):
        """Runs a command of the testbed, expects its exit code (None: any), returns what it printed."""
        process = self.start(*words)
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            raise AssertionError(f"{words} took more than {seconds} s; it printed:\n{output}") from None
        assert code is None or process.returncode == code, \
            f"{words}: exit code {process.returncode}, not {code}; it printed:\n{output}"
        return output

    def serve(self, k, programs, folder="/dev/shm/pools", medium="auto"):
        """Starts bonsaid in guest k, anew if it runs there, for a folder with a link to the NVDIMM. Returns the
        arguments that owners need."""
        secret = self.share / "secret"
        if not secret.exists():
            secret.touch(mode=0o600)
            secret.write_text(random.randbytes(32).hex())
        self.served += 1
        log = self.share / f"bonsaid.{self.served}.log"  # a new name: guests cache files that are gone
        self.run("exec", k, "busybox killall -q bonsaid; while busybox pidof bonsaid; do sleep 0.1; done")
        self.run("exec", k, f"mkdir -p {folder}; ln -sf {DEVDAX} {folder}/nvdimm; setsid {programs.parent}/bin/bonsaid "
                 f"--folder={folder} --listen={address_of(k)} --domain=adr --secret_file={secret} "
                 f"--medium={medium} --litmus_ms=50 >{log} 2>&1 </dev/null &")
        for _ in range(600):
            if log.exists() and "ready: serves" in log.read_text():
                return f"BONSAI_SECRET_FILE={secret}"
            time.sleep(0.1)
        raise AssertionError(f"bonsaid does not serve: {log.read_text() if log.exists() else 'no log'}")

    def pids(self):
        return [int(path.read_text()) for path in self.folder.glob("*.pid")]

    def remove(self):
        self.run("down", code=None)
        shutil.rmtree(self.folder.parent, ignore_errors=True)


def address_of(k):
    return f"rdma://10.66.0.{k}:7471"


def exists(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] != "Z"
    return False


class Servant(threading.Thread):
    """Carries out requests of tests in guests, from a file `request` in the share; removes the file when done."""

    def __init__(self, testbed):
        super().__init__(daemon=True)
        self.testbed, self.stopped = testbed, False

    def run(self):
        request = self.testbed.share / "request"
        while not self.stopped:
            if request.exists():
                self.testbed.run(*request.read_text().split())
                request.unlink()
            time.sleep(0.05)


class Tests:
    """The tests in the order in which they run; each leaves two healthy guests."""

    def __init__(self, testbed, build):
        self.testbed, self.programs = testbed, build / "tests"
        self.guest_cases = []

    # ---- the testbed itself

    def test_up_is_ready_with_device_and_nvdimm(self):
        begin = time.monotonic()
        print(self.testbed.run("up", 2, "--nvm", "64M", seconds=150), end="")
        print(f"two guests after {time.monotonic() - begin:.0f} s")
        output = self.testbed.run("run", "rdma link; ls /dev/dax0.0")
        for k in (1, 2):
            assert f"[{k}] link rxe0/1 state ACTIVE" in output, output
            assert f"[{k}] /dev/dax0.0" in output, output

    def test_exec_passes_on_output_and_exit_code(self):
        assert self.testbed.run("exec", 2, "echo out; echo err >&2; exit 7", code=7) == "out\nerr\n"
        assert "there is no guest '3'" in self.testbed.run("exec", 3, "true", code=1)
        assert "already" in self.testbed.run("up", 1, code=1)
        assert self.testbed.run("exec", 1, f"echo kept >{self.testbed.share}/note") == ""
        assert (self.testbed.share / "note").read_text() == "kept\n"
        self.testbed.run("exec", 1, f"touch {ROOT}/must-not-be-written", code=1)

    def test_cut_and_heal(self):
        def hears(k, other):
            return "1 packets received" in self.testbed.run("exec", k, f"busybox ping -q -c 1 -W 1 10.66.0.{other}",
                                                            code=None)
        assert hears(1, 2) and hears(2, 1)
        self.testbed.run("cut", 1, 2)
        assert not hears(1, 2) and not hears(2, 1)
        self.testbed.run("heal")
        assert hears(1, 2) and hears(2, 1)

    # ---- the fabric

    def guest_program(self, k, name, arguments, environment, seconds=120, program="rdma_device_test"):
        """Runs a GoogleTest program in a guest; its cases count as tests of this run."""
        xml = self.testbed.share / f"{name}.xml"
        words = " ".join([f"BONSAI_FIGURES={self.testbed.share}/figures", f"BONSAI_TESTBED_SHARE={self.testbed.share}",
                          *environment, f"timeout {seconds}", str(self.programs / program), *arguments,
                          f"--gtest_output=xml:{xml}"])
        output = self.testbed.run("exec", k, f"cd /run; {words}", seconds=seconds + 20, code=None)
        print(output, end="")
        assert xml.exists(), "it left no results"
        cases = list(ElementTree.parse(xml).getroot().iter("testcase"))
        for case in cases:
            case.set("classname", f"{name}.{case.get('classname')}")
        self.guest_cases += cases
        figures = self.testbed.share / "figures"
        if figures.exists() and os.environ.get("BONSAI_FIGURES"):
            with open(os.environ["BONSAI_FIGURES"], "a", encoding="ascii") as out:
                out.write(figures.read_text())
            figures.unlink()
        assert cases and "[  PASSED  ]" in output and "FAILED" not in output, "see above"

    def test_fabric_within_one_guest(self):
        self.guest_program(1, "one_guest", [], ["BONSAI_FABRIC=verbs"])

    def test_fabric_between_two_guests(self):
        loop = f"while true; do {self.programs}/rdma_verbs_puppet verbs {PUPPET_PORT}; done"
        self.testbed.run("exec", 2, f"setsid bash -c '{loop}' >/run/puppet.log 2>&1 </dev/null &")
        servant = Servant(self.testbed)
        servant.start()
        try:
            self.guest_program(1, "two_guests", ["--gtest_filter=-DeviceTest.*"],
                               ["BONSAI_FABRIC=verbs", f"BONSAI_FABRIC_PUPPET=tcp:10.66.0.2:{PUPPET_PORT}"])
        finally:
            servant.stopped = True

    def test_fabric_is_measured_between_two_guests(self):
        """Tests that it works, not its speed: runs of a few requests each, with perftest for comparison where that is
        installed."""
        bench, out = self.programs.parent / "bin" / "bonsai-bench", self.testbed.share / "fabric"
        serve = f"setsid {bench} fabric --serve=10.66.0.2:7100 --once >/run/serve.log 2>&1 </dev/null &"
        self.testbed.run("exec", 2, serve)
        print(self.testbed.run("exec", 1, f"cd /run; {bench} experiment fabric --peer=10.66.0.2:7100 "
                               "--requests=read,write --sizes=64 --batches=1 --depths=1 --repeat=1 --cell-ms=50 "
                               f"--out={out}"), end="")
        fabric = json.loads((out / "fabric.json").read_text())
        label = fabric["labels"][0]
        assert label.startswith("verbs: SOFTWARE RDMA") and "litmus tests: lost additions 0" in label, label
        assert len(fabric["rows"]) == 2, fabric["rows"]
        for row in fabric["rows"]:
            assert row["messages_per_s"] > 0, row
            assert row["ratio"] is not None or shutil.which(row["perftest"] or "ib_read_lat") is None, fabric["labels"]

    def test_rivals_keep_their_budgets(self):
        for program in ("bench_rivals_test", "bench_clover_test", "bench_paging_test"):
            self.guest_program(1, program, ["--gtest_filter='*Budget*/verbs*'"], ["BONSAI_FABRIC=verbs"],
                               program=program)

    # ---- the store over the fabric

    SERVED = address_of(2)

    @staticmethod
    def rounds(full, nightly):
        return nightly if os.environ.get("BONSAI_TEST_BUDGET") == "nightly" else full

    def start_bonsaid(self, folder="/dev/shm/pools", medium="auto"):
        return self.testbed.serve(2, self.programs, folder, medium)

    def test_store_over_rdma_runs_ycsb(self):
        """YCSB A and E over Soft-RoCE; the benchmark verifies every record that it reads."""
        secret, out = self.start_bonsaid(), self.testbed.share / "ycsb"
        bench = self.programs.parent / "bin" / "bonsai-bench"
        print(self.testbed.run("exec", 1, f"cd /run; {secret} {bench} run --engines=bonsai --workloads=load,a,e "
                               f"--records=2000 --operations=500 --threads=1 --depth=16 --pool-dir={self.SERVED} "
                               f"--out={out}", seconds=90), end="")
        runs = json.loads((out / "results.json").read_text())["runs"]
        assert {"load", "a", "e"} <= {run["workload"] for run in runs}, runs
        for run in runs:
            assert run["failures"] == 0 and run["complete"], run
            assert "over " in run["medium"] and "rxe0" in run["medium"], run["medium"]
            assert run["workload"] == "e" or run["fabric"]["round_trips"] > 0, run["fabric"]
        assert "bonsai-bench" not in self.testbed.run("exec", 2, "ls /dev/shm/pools"), "it removes its pools"

    def test_commands_over_rdma(self):
        """`bonsai` on pools of the other guest: commands that change a pool as a whole, or copy it."""
        secret, bonsai = self.start_bonsaid(), self.programs.parent / "bin" / "bonsai"
        pool, copy, saved = (f"{self.SERVED}/{name}" for name in ("fruit", "copy", "saved"))
        key = "with-a-large-value"

        def run(*words, code=0):
            command = [secret, str(bonsai), words[0], "--fabric_workers=1", *words[1:]]  # connecting is slow here
            return self.testbed.run("exec", 1, " ".join(command), code=code)

        run("put", f"--pool={pool}", "--create --bytes=2M apple red")
        run("put", f"--pool={pool}", key, "$(busybox seq 5000 | busybox tr '\\n' .)")
        run("grow", f"--pool={pool}", "--bytes=4M")
        assert self.testbed.run("exec", 2, "busybox stat -c %s /dev/shm/pools/fruit") == f"{4 << 20}\n"
        assert "2 records" in run("checkpoint", f"--pool={pool}", copy, "--bytes=2M")
        self.testbed.run("exec", 2, "cd /dev/shm/pools; at=$(grep -obUaF 4000.4001 fruit | busybox head -n 1 | "
                         "busybox cut -d: -f1); printf X | busybox dd of=fruit bs=1 seek=$at conv=notrunc")
        assert key in run("check", f"--pool={pool}", code=4), "in the node's file a byte of the large value has changed"
        found = run("salvage", f"--pool={pool}", saved, "--bytes=2M", code=4)
        assert "LOST" in found and key in found, found
        run("check", f"--pool={copy}")
        assert run("get", f"--pool={copy}", key) == "".join(f"{i}." for i in range(1, 5001)) + "\n"
        assert run("scan", f"--pool={saved}") == "apple\tred\n"
        self.testbed.run("exec", 2, "cd /dev/shm/pools; rm fruit copy saved")

    def test_installed_library_over_rdma(self):
        """A host program that finds the installed package (cmake/consumer), with a pool of the other guest."""
        secret, prefix, built = self.start_bonsaid(), self.testbed.share / "prefix", self.testbed.share / "consumer"
        for words in (["cmake", "--install", self.programs.parent, "--prefix", prefix],
                      ["cmake", "-G", "Ninja", "-S", ROOT / "cmake/consumer", "-B", built,
                       f"-DCMAKE_PREFIX_PATH={prefix}"],
                      ["cmake", "--build", built]):
            done = subprocess.run(words, capture_output=True, text=True)
            assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        found = self.testbed.run("exec", 1, f"{secret} LD_TRACE_LOADED_OBJECTS=1 {built}/consumer")
        assert str(prefix) in found, f"it does not use the installed library: {found}"
        self.testbed.run("exec", 1, f"{secret} {built}/consumer {self.SERVED}/consumer", seconds=90)
        answer = self.testbed.run("exec", 1, f"{secret} {self.programs.parent}/bin/bonsai get "
                                  f"--pool={self.SERVED}/consumer answer")
        assert answer == "42\n", answer
        self.testbed.run("exec", 2, "rm /dev/shm/pools/consumer")

    def test_store_over_rdma_keeps_its_budgets(self):
        secret = self.start_bonsaid()
        words = f"{secret} {self.programs}/remote_budgets {self.SERVED}/budgets"
        lines = self.testbed.run("exec", 1, words, seconds=90)
        print(lines, end="")
        if os.environ.get("BONSAI_FIGURES"):
            with open(os.environ["BONSAI_FIGURES"], "a", encoding="ascii") as out:
                out.write(f"verb_budgets {len(lines.splitlines())}\n")

    def test_store_over_rdma_survives_its_owner(self):
        """The owner in guest 1 is killed during writes to the NVDIMM of guest 2, which then opens the pool itself."""
        secret, pool, acknowledged = self.start_bonsaid(), f"{self.SERVED}/nvdimm", 0
        writer = self.testbed.start("exec", 1, f"{secret} {self.programs}/power_cut write {pool} auto 1")
        for line in writer.stdout:
            if not re.fullmatch(r"\d+\n", line):
                continue
            if acknowledged < 300 <= int(line):
                self.testbed.run("exec", 1, "busybox killall -9 power_cut")
            acknowledged = int(line)
        writer.wait()
        assert acknowledged >= 300, acknowledged
        found = self.testbed.run("exec", 2, f"{secret} {self.programs}/power_cut check {pool} {acknowledged}",
                                 seconds=90)
        print(f"owner killed: acknowledged {acknowledged}, found {found.strip()} from the other guest")

    def test_store_over_rdma_outlives_hiccups_of_its_node(self):
        """YCSB A while bonsaid is killed and restarted, or stopped, and while the network is away: operations are late
        and none fails. The benchmark verifies every record that it reads."""
        secret, out, rounds = self.start_bonsaid(), self.testbed.share / "hiccups", self.rounds(1, 5)
        bench, seconds = self.programs.parent / "bin" / "bonsai-bench", 10 + 25 * rounds
        running = self.testbed.start("exec", 1, f"cd /run; {secret} {bench} run --engines=bonsai --workloads=load,a "
                                     f"--latency=all --records=500 --threads=1 --seconds={seconds} "
                                     f"--pool-dir={self.SERVED} --out={out}")
        try:
            for _ in range(100):
                if "bonsai-bench" in self.testbed.run("exec", 2, "ls /dev/shm/pools"):
                    break
                time.sleep(0.2)
            time.sleep(4)
            for _ in range(rounds):
                self.testbed.run("exec", 2, "busybox killall -9 bonsaid")
                self.start_bonsaid()
                time.sleep(2)
                self.testbed.run("exec", 2, "busybox killall -STOP bonsaid; sleep 2; busybox killall -CONT bonsaid")
                time.sleep(2)
                self.testbed.run("cut", 1, 2)
                time.sleep(2)
                self.testbed.run("heal")
                time.sleep(2)
            printed, _ = running.communicate(timeout=seconds + 90)
        finally:
            running.kill()
        assert running.returncode == 0, printed
        run = next(run for run in json.loads((out / "results.json").read_text())["runs"] if run["workload"] == "a")
        assert run["failures"] == 0 and run["complete"], run
        waits = {kind: run["latency_us"][kind] for kind in ("read", "update")}
        print(f"YCSB A over Soft-RoCE for {seconds} s, {rounds} kills, stops and cuts: 0 failed operations,", ", ".join(
            f"{kind}: p99.9 {each['p999']} us, longest {each['max']} us" for kind, each in waits.items()))

    def replace_a_stopped_owner(self, how, restarts):
        """The owner in guest 1 is stopped; one in guest 2 gets the pool, and updates it; the first one goes on. Returns
        the first one's answers to what it was asked after that update, and whether the pool has changed since."""
        secret, number = self.start_bonsaid(), self.testbed.served
        pool, out = f"{self.SERVED}/pool", f"/run/owner.{number}"
        owner = f"{self.programs}/bonsaid_restart_test {how} {pool}"
        self.testbed.run("exec", 1, f"{secret} setsid {owner} >{out} 2>&1 </dev/null & echo $! >{out}.pid")

        def answers(after_ns):
            lines = self.testbed.run("exec", 1, f"busybox tail -n 2000 {out}").splitlines()
            calls = [line.split(" ", 3) for line in lines if re.match(r"[gp] \d+ \d+ ", line)]
            return [call for call in calls if int(call[1]) > after_ns]

        def await_answers(after_ns):
            for _ in range(60):
                found = answers(after_ns)
                if {call[0] for call in found} == {"g", "p"} and len(found) >= 10:
                    return found
                time.sleep(0.2)
            raise AssertionError(f"the owner stands: {self.testbed.run('exec', 1, f'busybox tail {out}')}")

        await_answers(0)
        self.testbed.run("exec", 1, f"busybox kill -STOP $(cat {out}.pid)")
        if restarts:
            self.testbed.run("exec", 2, "busybox killall -9 bonsaid")
            self.start_bonsaid()
        bonsai = f"{secret} {self.programs.parent}/bin/bonsai"
        flags = f"--fabric_workers=1 --fabric_wait_ms_max=20000 --pool={pool}"
        self.testbed.run("exec", 2, f"{bonsai} put {flags} k new")
        seconds = self.testbed.run("exec", 1, "busybox cut -d' ' -f1 /proc/uptime")
        before = self.testbed.run("exec", 2, "busybox sha256sum /dev/shm/pools/pool")
        self.testbed.run("exec", 1, f"busybox kill -CONT $(cat {out}.pid)")
        found = await_answers(int((float(seconds) + 0.01) * 1e9))
        self.testbed.run("exec", 1, f"busybox kill -9 $(cat {out}.pid)")
        changed = self.testbed.run("exec", 2, "busybox sha256sum /dev/shm/pools/pool") != before
        assert self.testbed.run("exec", 2, f"{bonsai} get {flags} k") == "new\n"
        self.testbed.run("exec", 2, "rm /dev/shm/pools/pool /dev/shm/pools/.pool.owner")
        return found, changed

    def test_a_stopped_owner_is_replaced_over_rdma(self):
        """It answers nothing more, and changes nothing. The canary: one that does not look at its lease answers."""
        rounds, answered = self.rounds(1, 50), 0
        for number in range(rounds):
            found, changed = self.replace_a_stopped_owner("--owner", restarts=number % 2 == 1)
            old = [call for call in found if call[2] == "0"]
            assert not old and not changed, (old, changed)
            answered += len(found)
        found, _ = self.replace_a_stopped_owner("--owner-without-lease", restarts=False)
        old = [call for call in found if call[0] == "g" and call[2] == "0"]
        assert old and old[0][3] == "old", found
        print(f"{rounds} owners stopped, replaced and woken over Soft-RoCE: {answered} calls after that, 0 answered, "
              f"0 pools changed; without its lease one answered {len(old)}")

    def kill_the_memory_node(self, medium):
        """Guest 2, where bonsaid serves a pool on a medium that loses what was not flushed, is killed amid the writes
        of guest 1, and started again. Returns what the check of guest 1 then prints."""
        folder = self.testbed.share / "served"
        shutil.rmtree(folder, ignore_errors=True)  # the files of the medium are on this machine and outlive guests
        folder.mkdir()
        secret, pool, acknowledged = self.start_bonsaid(folder, medium), f"{self.SERVED}/pool", 0
        writer = self.testbed.start("exec", 1, f"{secret} {self.programs}/power_cut write {pool} auto 1")
        said = []
        for line in writer.stdout:
            if not re.fullmatch(r"\d+\n", line):
                said.append(line)
                continue
            if acknowledged < 300 <= int(line):
                self.testbed.run("kill", 2)
            acknowledged = int(line)
        assert writer.wait() == 1 and acknowledged >= 300, (acknowledged, said)
        assert "10.66.0.2" in said[-1], f"the owner says which node has gone: {said}"
        self.testbed.run("restart", 2, seconds=150)
        secret = self.start_bonsaid(folder, medium)
        output = self.testbed.run("exec", 1, f"{secret} {self.programs}/power_cut check {pool} {acknowledged}",
                                  seconds=90, code=None)
        print(f"memory node killed ({medium}): acknowledged {acknowledged}, found {output.strip()}")
        return output

    def test_store_over_rdma_survives_its_memory_node(self):
        assert self.kill_the_memory_node("shadow").strip().isdigit()

    def test_store_over_rdma_without_flushes_loses(self):
        """The canary: the same test without flushes must fail."""
        assert not self.kill_the_memory_node("shadow-without-flushes").strip().isdigit()

    # ---- power cuts

    def write_until_killed(self, writers):
        """Writers {guest: (pool, medium, first number, puts before the kill)} at once; all guests are killed when the
        last writer has got so far, and started again. Returns the last number that each acknowledged."""
        acknowledged = {}

        def follow(k, process):
            for line in process.stdout:
                if re.fullmatch(r"\d+\n", line):  # a last line may be torn
                    acknowledged[k] = int(line)
                elif not line.strip().isdigit():
                    print(f"[{k}] {line.strip()}")

        started, readers = {}, []
        for k, (pool, medium, first, _) in writers.items():
            command = f"{self.programs}/power_cut write {pool} {medium} {first}"
            started[k] = self.testbed.start("exec", k, command)
            readers.append(threading.Thread(target=follow, args=(k, started[k])))
            readers[-1].start()
        end = time.monotonic() + 60
        while time.monotonic() < end and any(acknowledged.get(k, 0) < first + puts
                                             for k, (_, _, first, puts) in writers.items()):
            time.sleep(0.02)
        alive = [k for k, process in started.items() if process.poll() is None]
        for k in writers:
            self.testbed.run("kill", k)
        for reader in readers:
            reader.join()
        assert alive == list(writers), f"writers ended by themselves; {alive} did not"
        for k, (_, _, first, puts) in writers.items():
            assert acknowledged.get(k, 0) >= first + puts, f"guest {k} acknowledged too little: {acknowledged.get(k)}"
        for process in [self.testbed.start("restart", k) for k in writers]:
            output, _ = process.communicate(timeout=150)
            assert process.returncode == 0, output
        return acknowledged

    def check(self, k, pool, acknowledged, code=0):
        output = self.testbed.run("exec", k, f"{self.programs}/power_cut check {pool} {acknowledged}", code=code)
        print(f"[{k}] acknowledged {acknowledged}, found {output.strip()}")
        return output

    def shadow_pool(self):
        """Uses media where a shadow can write by system calls: emulated processors lack the stores that devdax
        needs."""
        pool = self.testbed.share / "pool"
        pool.unlink(missing_ok=True)
        bonsai = self.programs.parent / "bin" / "bonsai"
        subprocess.run([bonsai, "create", f"--pool={pool}", "--bytes=2M", "--log_bytes=128K"], check=True,
                       stdout=subprocess.DEVNULL)
        return pool

    def test_killed_guests_recover(self):
        pools = {1: DEVDAX, 2: self.shadow_pool()}
        acknowledged = self.write_until_killed({1: (DEVDAX, "auto", 1, random.randint(4_000, 30_000)),
                                                2: (pools[2], "shadow", 1, random.randint(600, 1_200))})
        self.found = {k: int(self.check(k, pools[k], acknowledged[k])) for k in (1, 2)}

    def test_killed_without_flushes_loses(self):
        """The canary: without flushes the same check must fail; the other guest recovers a second time."""
        first, pool = self.found[1] + 1, self.shadow_pool()
        acknowledged = self.write_until_killed({1: (DEVDAX, "auto", first, random.randint(4_000, 30_000)),
                                                2: (pool, "shadow-without-flushes", 1, 600)})
        self.check(1, DEVDAX, acknowledged[1])
        assert "lost" in self.check(2, pool, acknowledged[2], code=1)

    def test_a_pool_on_a_device_is_removed(self):
        """Here and on the other guest: nothing of it is left, and a pool can be made there, as large as the device."""
        secret, bonsai = self.start_bonsaid(), self.programs.parent / "bin" / "bonsai"

        def run(*words, code=0):
            command = [secret, str(bonsai), words[0], "--fabric_workers=1", *words[1:], "2>&1"]
            return self.testbed.run("exec", 1, " ".join(command), code=code)

        for pool in (DEVDAX, f"{self.SERVED}/nvdimm"):
            flag = f"--pool={pool}"
            run("put", flag, "--create", "apple", "red", code=None)  # an earlier test may have left a pool there
            assert "removed" in run("remove", flag)
            assert "holds no pool" in run("get", flag, "apple", code=3)
            print(run("create", flag), end="")
            assert run("scan", flag) == ""
            run("put", flag, "apple", "green")
            assert run("get", flag, "apple") == "green\n"
            assert "removed" in run("remove", flag)
            assert "is taken whole" in run("create", flag, "--bytes=16M")
            assert "removed" in run("remove", flag)

    # ---- the end

    def test_down_leaves_nothing(self):
        pids = self.testbed.pids()
        assert len(pids) == 2 and all(map(exists, pids)), pids
        self.testbed.run("down")
        assert not self.testbed.folder.exists()
        for _ in range(50):
            if not any(map(exists, pids)):
                break
            time.sleep(0.1)
        assert not any(map(exists, pids)), pids
        assert "none is up" in self.testbed.run("down")


def run_tests(tests, names):
    """Runs the tests in order; after a failure of the first one nothing else can run. Returns JUnit cases."""
    cases = []
    for name in names:
        case = ElementTree.Element("testcase", classname="testbed", name=name)
        cases.append(case)
        print(f"---- {name}", flush=True)
        begin = time.monotonic()
        try:
            getattr(tests, name)()
        except Exception as error:  # a failed test must not keep the guests running
            traceback.print_exc(file=sys.stdout)
            ElementTree.SubElement(case, "failure", message=str(error)[:2000])
            if name == names[0]:
                break
        case.set("time", f"{time.monotonic() - begin:.1f}")
        print(f"---- {name}: {time.monotonic() - begin:.1f} s", flush=True)
    return cases


def run_as_test(kind, text):
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--junit", type=pathlib.Path)
    parser.add_argument("tests", nargs="*", help="only tests whose name contains one of these, beside up and down")
    arguments = parser.parse_args()
    reason = reason_to_skip(arguments.build)
    if reason is not None:
        print(f"the fabric over Soft-RoCE, power cuts and scripts/testbed.sh were NOT tested: {reason}")
        return 1 if os.environ.get("BONSAI_TESTBED_REQUIRED") == "1" else EXIT_SKIPPED
    testbed = Testbed()
    tests = kind(testbed, arguments.build.resolve())
    names = [name for name in kind.__dict__ if name.startswith("test_")]
    wanted = [name for name in names[1:-1] if any(word in name for word in arguments.tests or [""])]
    try:
        cases = run_tests(tests, [names[0], *wanted, names[-1]])
    finally:
        testbed.remove()
    cases += tests.guest_cases
    if arguments.junit:
        suite = ElementTree.Element("testsuite", name="testbed")
        suite.extend(cases)
        arguments.junit.parent.mkdir(parents=True, exist_ok=True)
        ElementTree.ElementTree(suite).write(arguments.junit)
    failed = [case.get("name") for case in cases if case.find("failure") is not None]
    print(f"{len(cases)} tests, failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run_as_test(Tests, __doc__))
