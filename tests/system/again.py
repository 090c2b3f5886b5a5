#!/usr/bin/env python3
"""again.py NFS_PORT MOUNT_PORT EXPORT FILE first|again|still: calls that must not run twice, and their answers kept in FILE.

first makes each change once and notes what was sent and what came. again sends the same bytes by a new connection: the same
bytes must come back, and nothing may have changed; the write verifier must be another one each time, since the server was
killed or stopped in between, or gave up the pool and took it back. still: the same, but it did nothing of that.
"""
import pickle
import struct
import sys

from nfsrpc import NFS, Client, call, handle, lookup, mount, opaque

KEEP = b"\0" * 24  # sattr3 that sets nothing


def transact(c, record):
    c.s.sendall(record)
    return c.record()


def attributes(c, fh):
    r = c.ask(NFS, 1, opaque(fh))
    if r[:4] != b"\0" * 4:
        raise ValueError("GETATTR: %r" % r[:4])
    return r[4:]


def commit(c, fh):
    r = c.ask(NFS, 21, opaque(fh) + struct.pack(">QI", 0, 0))
    if r[:4] != b"\0" * 4:
        raise ValueError("COMMIT: %r" % r[:4])
    return r[-8:]


def changes(c, root):
    """(name, record) of each change, in order; a later one may undo what an earlier one did."""
    xid = 0x51000000
    guard = struct.pack(">I", 1)
    todo = [
        ("CREATE", 8, lambda: opaque(root) + opaque(b"f") + guard + KEEP),
        ("CREATE exclusive", 8, lambda: opaque(root) + opaque(b"x") + struct.pack(">I", 2) + b"verifier"),
        ("MKDIR", 9, lambda: opaque(root) + opaque(b"d") + KEEP),
        ("SYMLINK", 10, lambda: opaque(root) + opaque(b"s") + KEEP + opaque(b"target")),
        ("MKNOD", 11, lambda: opaque(root) + opaque(b"p") + struct.pack(">I", 7) + KEEP),
        ("LINK", 15, lambda: opaque(lookup(c, root, "f")) + opaque(root) + opaque(b"l")),
        ("SETATTR", 2, lambda: opaque(lookup(c, root, "f")) + struct.pack(">2I", 1, 0o600) + b"\0" * 20 + guard
            + attributes(c, lookup(c, root, "f"))[-8:]),
        ("RENAME", 14, lambda: opaque(root) + opaque(b"l") + opaque(root) + opaque(b"m")),
        ("REMOVE", 12, lambda: opaque(root) + opaque(b"m")),
        ("RMDIR", 13, lambda: opaque(root) + opaque(b"d")),
        ("REMOVE of nothing", 12, lambda: opaque(root) + opaque(b"never")),
    ]
    for name, proc, args in todo:
        xid += 1
        yield name, call(NFS, proc, args(), xid)


def first(c, root, path):
    done = []
    for name, record in changes(c, root):
        reply = transact(c, record)
        want = b"\0\0\0\0" if name != "REMOVE of nothing" else struct.pack(">I", 2)
        if reply[24:28] != want:
            sys.exit("%s: %r" % (name, reply[:28]))
        done.append((name, record, reply))
    f = lookup(c, root, "f")
    state = {"done": done, "root": root, "f": f, "attributes": attributes(c, f), "verifiers": [commit(c, f)]}
    with open(path, "wb") as out:
        pickle.dump(state, out)


def again(c, root, path, restarted=True):
    with open(path, "rb") as saved:
        state = pickle.load(saved)
    if root != state["root"]:
        sys.exit("another handle of the share")
    for name, record, reply in state["done"]:
        got = transact(c, record)
        if got != reply:
            if name == "REMOVE of nothing" and got[24:28] == reply[24:28]:
                continue  # it changed nothing, so nobody had to remember it
            sys.exit("%s: first %r, now %r" % (name, reply[24:], got[24:]))
    if attributes(c, state["f"]) != state["attributes"]:
        sys.exit("something has changed")
    verifier = commit(c, state["f"])
    if not restarted:
        if verifier != state["verifiers"][-1]:
            sys.exit("the write verifier is another one")
        return
    if verifier in state["verifiers"]:
        sys.exit("the write verifier is an old one")
    state["verifiers"].append(verifier)
    with open(path, "wb") as out:
        pickle.dump(state, out)


def main():
    c = Client(int(sys.argv[1]))
    root = mount(int(sys.argv[2]), sys.argv[3])
    if sys.argv[5] == "first":
        first(c, root, sys.argv[4])
    else:
        again(c, root, sys.argv[4], sys.argv[5] == "again")


if __name__ == "__main__":
    main()
