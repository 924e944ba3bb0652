#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the transcripts of documents, and compares what the commands print with what the documents say.

usage: scripts/transcripts.py --bin=FOLDER PAGE...

A transcript is a fenced block marked `console`. In it `$ ` begins a command, `> ` continues it, and the other lines are
what it prints (standard output and standard error). `...` stands for any text within a line, and for any lines where it
is a line by itself. A command must succeed, or its last line of output is `(exit code N)`.
A fenced block marked `sh` holds commands alone: what they print is not compared, and they must succeed.

The blocks of a page run in one shell, in a new folder below /dev/shm, which takes the place of /dev/shm in commands and
output, and has the nodes of shm://. FOLDER has the programs. Exit code: 0 when all agree; 1 when a command printed
something else, which is shown; 2 for wrong usage, or a page without a transcript."""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

COMMAND_SECONDS_MAX = 60


class Step:
    """A command of a document with what it prints; `printed` is None where that is not compared."""

    def __init__(self, line, command, printed):
        self.line, self.command, self.printed = line, command, printed


def steps_of(text):
    """The steps of a page, in order. Errors: ValueError (a console block that does not begin with a command)."""
    steps, kind = [], None
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            kind = line[3:].strip() if kind is None else None
        elif kind == "sh" and line.strip():
            steps.append(Step(number, line, None))
        elif kind == "console":
            if line.startswith("$ "):
                steps.append(Step(number, line[2:], []))
            elif not steps or steps[-1].printed is None:
                raise ValueError(f"line {number}: output before the first command of its block")
            elif line.startswith("> ") and not steps[-1].printed:
                steps[-1].command += "\n" + line[2:]
            else:
                steps[-1].printed.append(line)
    return steps


def agrees(expected, printed):
    """Whether lines of output are what a document says."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += "[^\n]*?".join(re.escape(part) for part in line.split("...")) + r"[ \t]*\n"
    return re.fullmatch(pattern, "".join(line + "\n" for line in printed)) is not None


class Shell:
    """One bash that carries out commands one by one."""

    END = "@end-of-command@"

    def __init__(self, folder, path):
        environment = dict(os.environ, PATH=path + os.pathsep + os.environ["PATH"], HOME=folder, LC_ALL="C.UTF-8",
                           BONSAI_SHM_FOLDER=folder)
        self.process = subprocess.Popen(["bash", "--norc"], cwd=folder, env=environment, text=True,
                                        start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)

    def run(self, command):
        """What the command prints, as lines, and its exit code."""
        signal.alarm(COMMAND_SECONDS_MAX)
        self.process.stdin.write(f"{command}\nprintf '\\n{self.END}%d\\n' $?\n")
        self.process.stdin.flush()
        printed = ""
        for line in self.process.stdout:
            if line.startswith(self.END):
                signal.alarm(0)
                lines = printed[:-1].split("\n")
                return (lines[:-1] if lines[-1] == "" else lines), int(line[len(self.END):])
            printed += line
        raise RuntimeError(f"the shell ended in: {command}")

    def close(self):
        """Ends the shell, and with it what runs in the background."""
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.communicate()


def run_page(page, path, folder):
    """The differences of a page, as text for people; none when all agree."""
    with open(page, encoding="utf-8") as file:
        steps = steps_of(file.read())
    if not steps:
        raise ValueError("no transcript")
    different = []
    shell = Shell(folder, path)
    try:
        for step in steps:
            command = step.command.replace("/dev/shm", folder)
            try:
                printed, code = shell.run(command)
            except RuntimeError as error:
                raise RuntimeError(f"line {step.line}: {error}") from error
            printed = [line.replace(folder, "/dev/shm") for line in printed]
            if code and step.printed is not None:
                printed.append(f"(exit code {code})")
            right = code == 0 if step.printed is None else agrees(step.printed, printed)
            if not right:
                different.append("\n".join([f"{page}:{step.line}: $ {step.command}", "the page says:",
                                            *(step.printed or []), f"printed (exit code {code}):", *printed, ""]))
    finally:
        shell.close()
    return different


def too_long(*_):
    raise RuntimeError(f"a command took more than {COMMAND_SECONDS_MAX} s")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, metavar="FOLDER", help="where the programs are")
    parser.add_argument("pages", nargs="+", metavar="PAGE")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGALRM, too_long)
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    different = []
    for page in options.pages:
        folder = tempfile.mkdtemp(prefix="bonsai-page-", dir=place)
        try:
            different += run_page(page, os.path.abspath(options.bin), folder)
        except (ValueError, OSError, RuntimeError) as error:
            print(f"transcripts.py: {page}: {error}", file=sys.stderr)
            return 2
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(different) if different else f"{len(options.pages)} pages agree")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
