# SPDX-License-Identifier: Apache-2.0
"""What one thread sees of an open store."""
import ast
import gc
import pathlib
import random

import pytest

import bonsai


def test_single_operations(db):
    assert db.get(b"a") is None and db.get(b"a", b"none") == b"none" and b"a" not in db
    with pytest.raises(KeyError):
        db[b"a"]
    db[b"a"] = b"1"
    db.put(bytearray(b"b"), memoryview(b"22"))
    assert db[b"a"] == b"1" and db.get(memoryview(b"b")) == b"22" and db.exists(b"b")
    buffer = bytearray(4)
    assert db.get_into(b"b", buffer) == 2 and buffer == b"22\0\0"
    assert db.get_into(b"b", bytearray(1)) == 2 and db.get_into(b"c", buffer) is None
    del db[b"a"]
    assert b"a" not in db and db.count() == 1
    db[b"empty"] = b""
    assert db[b"empty"] == b"" and db.get_into(b"empty", bytearray(0)) == 0
    assert db.stats()["puts"] >= 3 and db.stats()["medium"]


def test_it_comes_back(path):
    with bonsai.open(path, create=True, pool_bytes=16 << 20) as db:
        db[b"k"] = b"v"
    assert db.closed and bonsai.check(path).clean and bonsai.check(path)["records"] == 1
    with bonsai.open(str(path)) as db:
        assert db[b"k"] == b"v"


@pytest.mark.parametrize("key", [b"", b"k" * (bonsai.KEY_BYTES_MAX + 1)])
def test_keys_out_of_bounds(db, key):
    for call in (lambda: db.put(key, b""), lambda: db.get(key), lambda: db.put_many([(key, b"")]),
                 lambda: db.get_many([key])):
        with pytest.raises(bonsai.InvalidArgumentError):
            call()
    assert db.count() == 0


def test_types(db):
    for wrong in ("text", 7, None, object()):
        with pytest.raises(TypeError):
            db[wrong] = b""
        with pytest.raises(TypeError):
            db[b"k"] = wrong
    with pytest.raises(TypeError):
        db.put_many([7])
    with pytest.raises(TypeError):
        bonsai.open("/nonexistent", no_such_option=1)
    for options in ({"key_format": "hex"}, {"pool_bytes": -1}, {"background_threads": 1 << 40}, {"stall_ms_max": "no"}):
        with pytest.raises(ValueError):
            bonsai.open("/nonexistent", **options)
    with pytest.raises(bonsai.Error):
        bonsai.open("/nonexistent/folder/pool", create=True)


def test_many_and_scans(db):
    records = {b"%06d" % i: b"value %d" % i for i in range(10_000)}
    assert db.put_many(records) == len(records)
    keys = list(records)
    assert db.get_many(keys + [b"absent"]) == list(records.values()) + [None]
    assert db.put_many((key, value) for key, value in list(records.items())[:3]) == 3
    assert db.scan() == sorted(records.items())
    assert db.scan(start=b"000005", end=b"000008") == [(key, records[key]) for key in keys[5:8]]
    assert db.scan(limit=2) == list(records.items())[:2] and db.scan(end=b"") == []
    assert db.count(start=b"009000") == 1_000 and db.count(limit=5) == 5 and db.count(end=b"") == 0
    assert list(db.items()) == sorted(records.items()) and list(db) == keys and list(db.keys(end=b"000002")) == keys[:2]
    assert list(db.items(reverse=True)) == sorted(records.items(), reverse=True)
    assert list(db.keys(start=b"000003", end=b"000006", reverse=True)) == [b"000005", b"000004", b"000003"]
    assert list(db.items(start=b"1")) == []
    with pytest.raises(ValueError):
        db.scan_columns()
    assert db.delete_range(start=b"000005", end=b"000008") == 3 and db.count() == 9_997
    assert db.delete_range(limit=5) == 5 and db.scan(limit=1) == [(b"000008", records[b"000008"])]
    assert db.delete_range(end=b"") == 0 and db.delete_range(start=b"1") == 0 and db.count() == 9_992


def test_columns_are_what_numpy_reads(path):
    with bonsai.open(path, create=True, pool_bytes=16 << 20, key_format="fixed8") as db:
        db.put_many((bonsai.encode_fixed8(i), bonsai.encode_fixed8(i * i)) for i in range(1000))
        keys, values, key_bytes, value_bytes = db.scan_columns(limit=100)
        assert (key_bytes, value_bytes, len(keys), len(values)) == (8, 8, 800, 800)
        numbers = memoryview(values)
        assert all(bonsai.decode_fixed8(numbers[8 * i:8 * i + 8]) == i * i for i in range(100))
        assert db.scan_columns(start=bonsai.encode_fixed8(5000)) == (b"", b"", 0, 0)
        with pytest.raises(bonsai.InvalidArgumentError):
            db[b"short"] = b""


def test_batches_and_snapshots(db):
    db[b"a"] = b"1"
    batch = bonsai.Batch()
    batch.put(b"a", b"2")
    batch.put(b"b", b"2")
    batch.delete(b"c")
    assert len(batch) == 3
    with db.snapshot() as before:
        db.write(batch)
        assert db.get(b"a", snapshot=before) == b"1" and not db.exists(b"b", snapshot=before)
        assert db.scan(snapshot=before) == [(b"a", b"1")] and db.scan() == [(b"a", b"2"), (b"b", b"2")]
        cursor = db.cursor(snapshot=before)
        assert cursor.last() and cursor.key == b"a" and cursor.value == b"1"
        with pytest.raises(bonsai.BusyError):
            before.release()
        cursor.close()
    with pytest.raises(bonsai.InvalidArgumentError):
        db.get(b"a", snapshot=before)
    batch.clear()
    db.write(batch)
    assert db.batch_bytes_max > 0


def test_conditional_updates(db):
    absent, present = bonsai.Condition.absent(), bonsai.Condition.present()
    assert db.put_if(absent, b"a", b"1") and not db.put_if(absent, b"a", b"2") and db[b"a"] == b"1"
    assert not db.put_if(present, b"b", b"1") and db.put_if(present, b"a", b"2") and b"b" not in db
    seen = bytearray(b"2")
    equals = bonsai.Condition.equals(seen)
    seen[:] = b"3"
    assert db.put_if(equals, b"a", b"3") and not db.put_if(equals, b"a", b"4") and db[b"a"] == b"3"
    assert not db.delete_if(equals, b"a") and db.delete_if(present, b"a") and not db.delete_if(present, b"a")
    assert db.increment(b"n") == 1 and db.increment(b"n", -5) == -4 and db.increment(b"n", by=1 << 40) == (1 << 40) - 4
    with pytest.raises(bonsai.InvalidArgumentError):
        db.increment(b"n", (1 << 63) - 1)
    db[b"text"] = b"text"
    with pytest.raises(bonsai.InvalidArgumentError):
        db.increment(b"text")
    assert db[b"n"] == b"%d" % ((1 << 40) - 4)
    for wrong in (lambda: db.put_if(b"1", b"a", b"2"), lambda: bonsai.Condition.equals("text"), bonsai.Condition,
                  lambda: bonsai.Condition.unchanged(None)):
        with pytest.raises(TypeError):
            wrong()


def test_unchanged_since_a_snapshot(db, tmp_path):
    db[b"a"] = b"1"
    snapshot = db.snapshot()
    unchanged = bonsai.Condition.unchanged(snapshot)
    assert db.put_if(unchanged, b"b", b"1") and not db.put_if(unchanged, b"b", b"2")
    db[b"a"] = b"1"
    assert not db.delete_if(unchanged, b"a") and db[b"a"] == b"1"
    batch = bonsai.Batch()
    batch.require(b"c", unchanged)
    batch.put(b"c", b"1")
    with bonsai.open(tmp_path / "other", create=True, pool_bytes=16 << 20) as other:
        for call in (lambda: other.put_if(unchanged, b"a", b""), lambda: other.write(batch)):
            with pytest.raises(bonsai.InvalidArgumentError, match="another store"):
                call()
    snapshot.release()
    for call in (lambda: db.put_if(unchanged, b"c", b""), lambda: db.write(batch),
                 lambda: batch.require(b"c", unchanged)):
        with pytest.raises(bonsai.InvalidArgumentError, match="released"):
            call()
    batch.clear()
    db.write(batch)
    assert b"c" not in db
    del snapshot, unchanged
    gc.collect()


def test_a_batch_with_conditions(db):
    db[b"a"] = b"1"
    batch = bonsai.Batch()
    batch.require(b"a", bonsai.Condition.equals(b"1"))
    batch.require(b"b", bonsai.Condition.absent())
    batch.put(b"a", b"2")
    batch.put(b"c", b"2")
    db.write(batch)
    assert db.scan() == [(b"a", b"2"), (b"c", b"2")]
    db[b"a"], db[b"b"] = b"1", b"here"
    with pytest.raises(bonsai.ConditionFailedError) as caught:
        db.write(batch)
    assert caught.value.failed == 1 and db[b"c"] == b"2" and db[b"a"] == b"1"
    snapshot = db.snapshot()
    batch.clear()
    batch.require(b"c", bonsai.Condition.unchanged(snapshot))
    batch.delete(b"c")
    db.write(batch)
    assert b"c" not in db
    with pytest.raises(bonsai.ConditionFailedError):
        db.write(batch)
    snapshot.release()


def test_cursor_moves(db):
    db.put_many({b"b": b"1", b"d": b"2", b"f": b"3"})
    cursor = db.cursor()
    assert not cursor.valid
    with pytest.raises(bonsai.InvalidArgumentError):
        cursor.key
    with pytest.raises(bonsai.InvalidArgumentError):
        cursor.next()
    assert cursor.seek(b"b") and cursor.key == b"b"
    assert cursor.seek_after(b"b") and cursor.key == b"d"
    assert cursor.seek_for_prev(b"e") and cursor.key == b"d"
    assert cursor.seek_before(b"d") and cursor.key == b"b"
    assert not cursor.prev() and not cursor.valid
    db[b"a"] = b"0"
    assert cursor.first() and cursor.key == b"b", "it reads as of its moment"
    assert cursor.next() and cursor.next() and not cursor.next()
    cursor.close()
    with pytest.raises(bonsai.InvalidArgumentError):
        cursor.first()


def test_sessions_keep_the_order_of_a_key(db):
    big = b"x" * 5000
    with db.session(depth=4) as session:
        places = [session.put(b"k", b"1"), session.get(b"k"), session.put(b"k", big), session.get(b"k"),
                  session.delete(b"k"), session.get(b"k"), session.put(b"k", b"2")]
        assert places == list(range(7)) and len(session) == 7
        assert session.wait() == [None, b"1", None, big, None, None, None]
        assert session.wait() == [] and db[b"k"] == b"2"
        session.put(b"", b"")
        with pytest.raises(bonsai.InvalidArgumentError):
            session.wait()
        assert len(session) == 0
        session.put(b"left", b"queued")
    assert db[b"left"] == b"queued", "a with block that ends well carries out what is queued"


def test_random_operations_agree_with_a_dict(db):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    draw, model = random.Random(seed), {}
    keys = [b"%d" % i for i in range(300)]
    with db.session() as session:
        for _ in range(200):
            expected = []
            for _ in range(draw.randrange(40)):
                key, value = draw.choice(keys), bytes([draw.randrange(256)]) * draw.choice([0, 3, 127, 128, 129, 4000])
                kind = draw.randrange(3)
                if kind == 0:
                    session.put(key, value)
                    model[key] = value
                elif kind == 1:
                    session.delete(key)
                    model.pop(key, None)
                else:
                    session.get(key)
                expected.append(model.get(key) if kind == 2 else None)
            assert session.wait() == expected
    assert db.scan() == sorted(model.items()) and db.get_many(keys) == [model.get(key) for key in keys]


def test_copies(db, tmp_path):
    db.put_many((b"%d" % i, b"v") for i in range(1000))
    assert db.checkpoint(tmp_path / "copy") == 1000
    with pytest.raises(bonsai.Error):
        db.checkpoint(tmp_path / "copy")
    assert bonsai.salvage(tmp_path / "copy", tmp_path / "again")["records"] == 1000
    report = bonsai.check(tmp_path / "again")
    assert report.damages == [] and report["records"] == 1000
    with pytest.raises(KeyError):
        report["no such count"]
    assert bonsai.describe_medium(tmp_path / "x")


def test_what_outlives_its_store_raises_and_does_not_crash(path):
    db = bonsai.open(path, create=True, pool_bytes=16 << 20)
    db.put_many((b"%d" % i, b"v") for i in range(100))
    cursor, session, snapshot, items = db.cursor(), db.session(), db.snapshot(), iter(db.items())
    reader = db.cursor(snapshot=snapshot)
    next(items)
    cursor.first()
    db.close()
    db.close()
    for call in (lambda: db.get(b"1"), cursor.first, lambda: reader.seek(b"1"), lambda: session.get(b"1"),
                 lambda: [next(items) for _ in range(100)], db.snapshot, db.cursor, db.session, db.stats,
                 lambda: list(db)):
        with pytest.raises(bonsai.InvalidArgumentError):
            call()
    snapshot.release()
    del db, cursor, session, snapshot, items, reader
    gc.collect()
    db = bonsai.open(path)
    del db  # closes
    gc.collect()
    assert bonsai.check(path).clean


def test_the_stub_names_what_the_module_has():
    stub = ast.parse((pathlib.Path(bonsai.__file__).parent / "_bonsai.pyi").read_text())
    named = {node.name: node for node in stub.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    for name in bonsai.__all__:
        thing = getattr(bonsai, name)
        if not isinstance(thing, type):
            continue
        methods = {node.name for node in named[name].body if isinstance(node, ast.FunctionDef)}
        public = {one for one in vars(thing) if not one.startswith("_")}
        assert public <= methods, (name, public - methods)
