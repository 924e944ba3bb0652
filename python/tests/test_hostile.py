# SPDX-License-Identifier: Apache-2.0
"""Threads, forks, kills and other things that hosts do."""
import os
import signal
import subprocess
import sys
import threading

import pytest

import bonsai

WRITER = """
import sys, bonsai
db = bonsai.open(sys.argv[1])
for round in range(1 << 30):
    first = round * 32
    db.put_many((b"%08d" % i, b"v%d" % i) for i in range(first, first + 32))
    print(first + 32, flush=True)
"""


@pytest.mark.parametrize("round", range(3))
def test_what_a_killed_process_was_answered_is_there(path, round):
    bonsai.open(path, create=True, pool_bytes=64 << 20).close()
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    acknowledged = 0
    for _ in range(50 + 70 * round):
        acknowledged = int(child.stdout.readline())
    child.kill()
    acknowledged = max([acknowledged, *(int(line) for line in child.stdout.read().split())])
    child.wait()
    with bonsai.open(path) as db:
        assert db.get_many(b"%08d" % i for i in range(acknowledged)) == [b"v%d" % i for i in range(acknowledged)]


def test_threads_share_a_store(db):
    def work(thread):
        for i in range(500):
            db[b"%d-%d" % (thread, i)] = b"v"
            assert db[b"%d-%d" % (thread, i)] == b"v"

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db.count() == 2000


def test_threads_compare_and_set(db):
    def work():
        for _ in range(200):
            db.increment(b"counter")
            while True:
                seen = db.get(b"set")
                condition = bonsai.Condition.absent() if seen is None else bonsai.Condition.equals(seen)
                if db.put_if(condition, b"set", b"%d" % (int(seen or 0) + 1)):
                    break

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db[b"counter"] == db[b"set"] == b"800"


def test_close_beside_calls_is_busy_and_harms_nobody(path):
    db = bonsai.open(path, create=True, pool_bytes=16 << 20)
    db.put_many((b"%08d" % i, b"v" * 100) for i in range(5000))
    wrong = []

    def read():
        try:
            for _ in range(20):
                assert len(db.scan()) == 5000
        except bonsai.InvalidArgumentError:
            pass  # it is closed
        except BaseException as error:  # noqa: BLE001
            wrong.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    while not db.closed:
        try:
            db.close()
        except bonsai.BusyError:
            threads[0].join(0.001)
    for thread in threads:
        thread.join()
    assert not wrong and bonsai.check(path).clean


def test_a_forked_child_touches_nothing(path):
    db = bonsai.open(path, create=True, pool_bytes=16 << 20)
    db[b"k"] = b"v"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            db[b"k"] = b"child"
        except bonsai.NotSupportedError:
            code = 0
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert db[b"k"] == b"v"
    db.close()


def test_a_second_owner_is_busy(path):
    with bonsai.open(path, create=True, pool_bytes=16 << 20):
        with pytest.raises(bonsai.BusyError):
            bonsai.open(path)


def test_a_full_pool_says_so_and_takes_deletes(path):
    with bonsai.open(path, create=True, pool_bytes=1 << 20, stall_ms_max=200) as db:
        written = 0
        with pytest.raises(bonsai.NoSpaceError):
            while True:
                db[b"%08d" % written] = os.urandom(1000)
                written += 1
        assert db.count() == written
        for i in range(written):
            del db[b"%08d" % i]
        assert db.count() == 0


def test_an_exception_in_an_iterable_leaves_the_store_well(db):
    def records():
        yield b"a", b"1"
        raise RuntimeError("of the caller")

    with pytest.raises(RuntimeError):
        db.put_many(records())
    with pytest.raises(TypeError):
        db.put_many({b"a": "text"})
    with pytest.raises(ValueError):
        db.put_many([(b"a", b"b", b"c")])
    db[b"b"] = b"2"
    assert db[b"b"] == b"2"


def test_interrupts_reach_the_caller(db):
    """Ctrl-C between calls raises as usual; nothing is lost of what was answered."""
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    old = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    written = 0
    try:
        while True:
            db[b"%08d" % written] = b"v"
            written += 1
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGALRM, old)
    assert written <= db.count() <= written + 1
