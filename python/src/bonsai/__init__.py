# SPDX-License-Identifier: Apache-2.0
"""Bonsai: a durable, ordered key-value store for tiered memory.

    import bonsai

    with bonsai.open("/dev/shm/fruit.pool", create=True) as db:
        db[b"apple"] = b"red"          # durable when it returns
        print(db[b"apple"])
        for key, value in db.items(start=b"a"):
            print(key, value)

Keys are 1 to 1,024 bytes, values 0 bytes to 16 MiB: bytes, or any object with a contiguous buffer, which is read where
it is. What is returned is bytes. Every call that reaches the store releases the interpreter's lock.
"""
from ._bonsai import (  # noqa: F401
    DB,
    Batch,
    BusyError,
    CheckReport,
    Condition,
    ConditionFailedError,
    CorruptionError,
    Cursor,
    Error,
    InvalidArgumentError,
    IoError,
    KEY_BYTES_MAX,
    NoSpaceError,
    NotSupportedError,
    Session,
    Snapshot,
    UnavailableError,
    VALUE_BYTES_MAX,
    check,
    decode_fixed8,
    describe_medium,
    encode_fixed8,
    open,
    salvage,
    version,
)

__version__ = version()
__all__ = [name for name in dir() if not name.startswith("_")]
