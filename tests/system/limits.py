#!/usr/bin/env python3
"""limits.py NFS_PORT MOUNT_PORT EXPORT stat | fill BYTES STATUS | remove

stat: FSSTAT's total, free and available bytes. fill: writes files of 1 MiB, FILE_SYNC, until so many bytes are there or something is
refused; the last status must be STATUS. remove: all files.
"""
import os
import struct
import sys

from nfsrpc import NFS, Client, handle, listing, mount, opaque

PIECE = 1 << 16
FILE = 1 << 20


def code(result):
    return struct.unpack(">I", result[:4])[0]


def ask(c, proc, args):
    return c.ask(NFS, proc, args)


def stat(c, root):
    result = ask(c, 18, opaque(root))
    at = 8 + (84 if result[4:8] == b"\0\0\0\1" else 0)
    return struct.unpack(">QQQ", result[at:at + 24])


def create(c, root, name):
    result = ask(c, 8, opaque(root) + opaque(name) + struct.pack(">I", 1) + b"\0" * 24)
    return code(result), handle(result[:4] + result[8:]) if code(result) == 0 else None


def fill(c, root, want):
    done, status = 0, 0
    while done < want and status == 0:
        status, fh = create(c, root, b"f-" + os.urandom(8).hex().encode())
        for off in range(0, FILE, PIECE):
            length = min(PIECE, want - done)
            if status != 0 or length <= 0:
                break
            status = code(ask(c, 7, opaque(fh) + struct.pack(">QII", off, length, 2) + opaque(os.urandom(length))))
            done += length if status == 0 else 0
    return status


def main():
    c = Client(int(sys.argv[1]), timeout=60)
    root = mount(int(sys.argv[2]), sys.argv[3])
    if sys.argv[4] == "stat":
        print("%d %d %d" % stat(c, root))
    elif sys.argv[4] == "fill":
        status = fill(c, root, int(sys.argv[5]))
        if status != int(sys.argv[6]):
            sys.exit("the last status was %d, not %s" % (status, sys.argv[6]))
        print("done")
    else:
        for name in [n for n in listing(c, root) if n not in (b".", b"..")]:
            if code(ask(c, 12, opaque(root) + opaque(name))) != 0:
                sys.exit("REMOVE failed")
        print("removed")


if __name__ == "__main__":
    main()
