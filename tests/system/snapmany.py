#!/usr/bin/env python3
"""snapmany.py SOCKET NFS_PORT MOUNT_PORT churn COUNT | handles ROUNDS | same SNAPSHOT

churn: COUNT snapshots of /tank/share, in each of which the file f holds the number in its name; every third goes again; at the end all
go, in ranges. handles: what a client holds across rollbacks is the snapshot's at once. same: the live tree is the snapshot's, attributes
and data.
"""
import hashlib
import json
import socket
import struct
import sys
import time

from nfsrpc import NFS, STALE, Client, handle, listing, lookup, mount, opaque

NOENT = 2
READ_IO = 1 << 18
DESTROY_SECONDS_MAX = 10
SET_SIZE_ONLY = struct.pack(">4I", 0, 0, 0, 1)


class Admin:
    def __init__(self, path):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(60)
        self.s.connect(path)
        self.f = self.s.makefile("rb")

    def ask(self, cmd, **args):
        self.s.sendall(json.dumps({"v": 1, "cmd": cmd, "args": args}).encode() + b"\n")
        reply = json.loads(self.f.readline())
        if not reply["ok"]:
            sys.exit("%s %r: %r" % (cmd, args, reply))
        return reply


def code(result):
    return struct.unpack(">I", result[:4])[0]


def must(result, what):
    if code(result) != 0:
        sys.exit("%s: status %d" % (what, code(result)))
    return result


def attributes(c, fh):
    """All but fsid."""
    a = must(c.ask(NFS, 1, opaque(fh)), "GETATTR")[4:88]
    return a[:44] + a[52:]


def create(c, directory, name):
    r = must(c.ask(NFS, 8, opaque(directory) + opaque(name) + struct.pack(">I", 0) + b"\0" * 24), "CREATE")
    return handle(r[:4] + r[8:])


def put(c, fh, text):
    must(c.ask(NFS, 2, opaque(fh) + SET_SIZE_ONLY + struct.pack(">Q3I", 0, 0, 0, 0)), "SETATTR")
    must(c.ask(NFS, 7, opaque(fh) + struct.pack(">QII", 0, len(text), 2) + opaque(text)), "WRITE")


def read(c, fh):
    """The status, and all bytes."""
    data = b""
    while True:
        r = c.ask(NFS, 6, opaque(fh) + struct.pack(">QI", len(data), READ_IO))
        if code(r) != 0:
            return code(r), b""
        at = 8 + (84 if r[7] else 0)
        count, eof = struct.unpack(">2I", r[at : at + 8])
        data += r[at + 12 : at + 12 + count]
        if eof:
            return 0, data


def churn(admin, c, root, count):
    fh = create(c, root, b"f")
    slowest = 0.0

    def destroy(names):
        began = time.time()
        admin.ask("fs destroy", name="tank/share@" + names)
        return time.time() - began

    for i in range(1, count + 1):
        put(c, fh, b"%d" % i)
        admin.ask("fs snapshot", name="tank/share@t%d" % i)
        admin.ask("fs rename", name="tank/share@t%d" % i, to="s%d" % i)  # so that a name is found with its contents
        if i % 3 == 0:
            slowest = max(slowest, destroy("s%d" % (i - 1)))
    names = listing(c, lookup(c, root, ".snapshot"))
    if len(names) != 2 + count - count // 3:
        sys.exit("%d names in .snapshot" % len(names))
    time.sleep(2)  # for who reads them
    slowest = max(slowest, destroy("s1%%s%d" % (count // 2 // 3 * 3)), destroy("%"))
    if slowest > DESTROY_SECONDS_MAX:
        sys.exit("a destroy took %.1f s" % slowest)
    print("%d snapshots came and went, no destroy took longer than %.2f s" % (count, slowest))


def handles(admin, c, root, rounds):
    kept = create(c, root, b"kept")
    put(c, kept, b"as it was" * 1000)
    admin.ask("fs snapshot", name="tank/share@held")
    before, top = attributes(c, kept), attributes(c, root)
    names = sorted(listing(c, root))
    for i in range(rounds):
        new = create(c, root, b"new%d" % i)
        put(c, new, b"new")
        put(c, kept, b"spoiled")
        must(c.ask(NFS, 14, opaque(root) + opaque(b"kept") + opaque(root) + opaque(b"moved%d" % i)), "RENAME")
        admin.ask("fs rollback", name="tank/share@held", recursive=False)
        if read(c, kept) != (0, b"as it was" * 1000) or attributes(c, kept) != before or attributes(c, root) != top:
            sys.exit("round %d: not the snapshot's data or attributes" % i)
        if read(c, new)[0] != STALE or code(c.ask(NFS, 3, opaque(root) + opaque(b"new%d" % i))) != NOENT:
            sys.exit("round %d: what was discarded is still there" % i)
        if sorted(listing(c, root)) != names or sorted(listing(c, root, plus=False)) != names:
            sys.exit("round %d: not the snapshot's listing" % i)
    admin.ask("fs destroy", name="tank/share@held")
    print("%d rollbacks" % rounds)


def tree(c, fh, path, out):
    a = attributes(c, fh)
    kind = struct.unpack(">I", a[:4])[0]
    out[path] = (a, hashlib.sha256(read(c, fh)[1]).digest() if kind == 1 else b"")
    if kind == 2:
        for name in listing(c, fh):
            if name not in (b".", b"..", b".snapshot"):
                tree(c, lookup(c, fh, name.decode()), path + b"/" + name, out)


def same(c, root, snapshot):
    live, then = {}, {}
    tree(c, root, b"", live)
    tree(c, lookup(c, lookup(c, root, ".snapshot"), snapshot), b"", then)
    for path in sorted(set(live) | set(then)):
        if live.get(path) != then.get(path):
            sys.exit("%r isn't the snapshot's" % path)
    print("%d files and directories are the snapshot's" % len(live))


def main():
    admin, c = Admin(sys.argv[1]), Client(int(sys.argv[2]), timeout=60)
    c.xid = int(time.time() * 1000) & 0x3FFFFFFF  # no call looks like one of an earlier run, sent again
    root = mount(int(sys.argv[3]), "/tank/share")
    if sys.argv[4] == "churn":
        churn(admin, c, root, int(sys.argv[5]))
    elif sys.argv[4] == "handles":
        handles(admin, c, root, int(sys.argv[5]))
    else:
        same(c, root, sys.argv[5])


if __name__ == "__main__":
    main()
