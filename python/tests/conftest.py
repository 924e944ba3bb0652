# SPDX-License-Identifier: Apache-2.0
import pytest

import bonsai


@pytest.fixture
def path(tmp_path):
    return tmp_path / "test.pool"


@pytest.fixture
def db(path):
    with bonsai.open(path, create=True, pool_bytes=16 << 20) as store:
        yield store
