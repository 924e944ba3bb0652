#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: widen_socket.py PID PORT

Gives the UDP sockets at PORT of the process PID, the virtual machine of a guest, a receive buffer of 8 MiB. Linux'
208 KiB hold some thirty packets of 4 KiB: an answer of 128 KiB to an RDMA READ lost some of them again and again, each
a time-out of Soft-RoCE. What this process may not do is left as it is: the guest then loses packets, and works.
"""
import ctypes
import os
import pathlib
import socket
import sys

SO_RCVBUFFORCE = 33
PIDFD_GETFD = 438  # the system call; glibc has no wrapper in Debian 12
BYTES = 8 << 20


def inodes(port):
    rows = [line.split() for line in pathlib.Path("/proc/net/udp").read_text().splitlines()[1:]]
    return {row[9] for row in rows if int(row[1].split(":")[1], 16) == port}


def widen(pid, port):
    """Returns the number of sockets that have a larger buffer now."""
    wanted, widened = {f"socket:[{inode}]" for inode in inodes(port)}, 0
    process = os.pidfd_open(pid)
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        if os.readlink(link) not in wanted:
            continue
        fd = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, process, int(link.name), 0)
        if fd < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        with socket.socket(fileno=fd) as shared:
            try:
                shared.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BYTES)
            except PermissionError:  # then up to net.core.rmem_max
                shared.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BYTES)
        widened += 1
    return widened


if __name__ == "__main__":
    try:
        print(f"{widen(int(sys.argv[1]), int(sys.argv[2]))} sockets widened")
    except OSError as error:
        print(f"the fabric of this guest will lose packets: {error}")
