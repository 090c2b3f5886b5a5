#!/usr/bin/env python3
"""quotas.py NFS_PORT MOUNT_PORT EXPORT UID GID stat | fill NAME BYTES STATUS | files PREFIX COUNT STATUS | chown NAME UID STATUS |
   cut NAME | overwrite NAME STATUS | remove NAME

As that user. fill and files go on until so much is there or something is refused; STATUS is that of the last call. stat: FSSTAT's total, free and
available bytes, free files. fill tells how many bytes were written.
"""
import os
import struct
import sys

from nfsrpc import NFS, Client, call, handle, mount, opaque

PIECE = 1 << 16


class As(Client):
    """With a group, too."""

    def __init__(self, port, uid, gid):
        super().__init__(port, timeout=60, uid=uid)
        self.gid = gid
        self.xid = int.from_bytes(os.urandom(3), "big")  # not to be taken for a call sent again

    def ask(self, prog, proc, args, vers=3):
        self.xid += 1
        self.s.sendall(call(prog, proc, args, self.xid, vers, self.uid, self.gid))
        return self.record()[24:]


def code(result):
    return struct.unpack(">I", result[:4])[0]


def create(c, root, name):
    result = c.ask(NFS, 8, opaque(root) + opaque(name) + struct.pack(">I", 0) + b"\0" * 24)
    return code(result), handle(result[:4] + result[8:]) if code(result) == 0 else None


def lookup(c, root, name):
    return handle(c.ask(NFS, 3, opaque(root) + opaque(name)))


def write(c, fh, off, length):
    return code(c.ask(NFS, 7, opaque(fh) + struct.pack(">QII", off, length, 2) + opaque(os.urandom(length))))


def setattr_status(c, fh, uid=None, size=None):
    mode = b"\0" * 4
    owner = b"\0" * 4 if uid is None else struct.pack(">II", 1, uid)
    length = b"\0" * 4 if size is None else struct.pack(">IQ", 1, size)
    return code(c.ask(NFS, 2, opaque(fh) + mode + owner + b"\0" * 4 + length + b"\0" * 8 + b"\0" * 4))


def fill(c, root, name, want):
    done = 0
    status, fh = create(c, root, name)
    while status == 0 and done < want:
        status = write(c, fh, done, PIECE)
        done += PIECE if status == 0 else 0
    return status, done


def main():
    port, mount_port, export, uid, gid, what = sys.argv[1:7]
    args = sys.argv[7:]
    c = As(int(port), int(uid), int(gid))
    root = mount(int(mount_port), export)
    name = args[0].encode() if args else b""
    status = 0
    if what == "stat":
        result = c.ask(NFS, 18, opaque(root))
        at = 8 + (84 if result[4:8] == b"\0\0\0\1" else 0)
        values = struct.unpack(">QQQQQ", result[at:at + 40])
        print("%d %d %d %d" % (*values[:3], values[4]))
    elif what == "fill":
        status, done = fill(c, root, name, int(args[1]))
        print(done)
    elif what == "files":
        for i in range(int(args[1])):
            status, _ = create(c, root, name + b"%d" % i)
            if status != 0:
                break
    elif what == "chown":
        status = setattr_status(c, lookup(c, root, name), uid=int(args[1]))
    elif what == "cut":
        status = setattr_status(c, lookup(c, root, name), size=0)
    elif what == "overwrite":
        status = write(c, lookup(c, root, name), 0, PIECE)
    elif what == "remove":
        status = code(c.ask(NFS, 12, opaque(root) + opaque(name)))
    want = int(args[-1]) if what in ("fill", "files", "chown", "overwrite") else 0
    if status != want:
        sys.exit("%s: status %d, not %d" % (what, status, want))


if __name__ == "__main__":
    main()
