#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bonsai-server with go-redis and jedis, by the programs in other_clients/.

usage: other_clients_test.py BONSAI_SERVER

They come from the Go module proxy and from Maven Central, and Debian has neither. So this is run by hand, on a machine
that has Go and Java and reaches both: the other tests take what scripts/setup.sh installs. Exit code 77 (skipped, with
the reason) where neither can be had.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
PROGRAMS = pathlib.Path(__file__).resolve().parent / "other_clients"
GO_REDIS, JEDIS = "github.com/redis/go-redis/v9@v9.7.0", "5.2.0"
SECONDS_MAX = 600
POM = f"""<project><modelVersion>4.0.0</modelVersion><groupId>bonsai</groupId><artifactId>clients</artifactId>
<version>1</version><dependencies><dependency><groupId>redis.clients</groupId><artifactId>jedis</artifactId>
<version>{JEDIS}</version></dependency></dependencies></project>"""


class Missing(Exception):
    """What a client needs cannot be had here."""


def prepare(folder, *words):
    if shutil.which(words[0]) is None:
        raise Missing(f"{words[0]} is not installed")
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX)
    if done.returncode != 0:
        raise Missing(f"{' '.join(words)}: {(done.stdout + done.stderr).strip()[-300:]}")
    return done.stdout


def go_redis(folder, port):
    shutil.copy(PROGRAMS / "go_redis.go", folder / "main.go")
    prepare(folder, "go", "mod", "init", "bonsai/clients")
    prepare(folder, "go", "get", GO_REDIS)
    prepare(folder, "go", "build", "-o", "client", ".")
    return [str(folder / "client"), f"127.0.0.1:{port}"]


def jedis(folder, port):
    (folder / "pom.xml").write_text(POM)
    prepare(folder, "mvn", "-q", "dependency:build-classpath", "-Dmdep.outputFile=classpath")
    prepare(folder, "java", "--version")
    return ["java", "-cp", (folder / "classpath").read_text().strip(), str(PROGRAMS / "Jedis.java"), str(port)]


def start(program, folder):
    log = folder / "log"
    with log.open("w") as err:
        server = subprocess.Popen([program, f"--pool={folder}/pool", "--create", "--bytes=64M", "--listen=127.0.0.1:0"],
                                  stderr=err)
    end = time.monotonic() + SECONDS_MAX
    while (found := re.search(r"ready: .* at 127\.0\.0\.1:(\d+)", log.read_text())) is None:
        if server.poll() is not None or time.monotonic() > end:
            sys.exit(log.read_text())
        time.sleep(0.02)
    return server, int(found[1])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    results = []
    with tempfile.TemporaryDirectory(prefix="bonsai_server.") as name:
        folder = pathlib.Path(name)
        server, port = start(os.path.abspath(sys.argv[1]), folder)
        for client in (go_redis, jedis):
            place = folder / client.__name__
            place.mkdir()
            try:
                results.append(subprocess.run(client(place, port), timeout=SECONDS_MAX).returncode)
                print(f"{client.__name__}: {'passed' if results[-1] == 0 else 'FAILED'}")
            except Missing as missing:
                print(f"{client.__name__}: NOT RUN: {missing}")
        server.send_signal(signal.SIGTERM)
        results.append(server.wait(SECONDS_MAX))
    if len(results) == 1:
        return SKIPPED
    return 0 if not any(results) else 1


if __name__ == "__main__":
    sys.exit(main())
