#!/usr/bin/env python3
"""fill.py NFS_PORT MOUNT_PORT EXPORT small|large|empty fill|remove|check COUNT: fills a share until it says NFS3ERR_NOSPC.

small: files of 16 KiB, written FILE_SYNC; large: one file; empty: files without data, names of 200 bytes, at most EMPTY_MAX.
FILL_STATUS: what says that it is full, instead of 28 (NFS3ERR_NOSPC).
Data is incompressible and tells which file and place it belongs to. check: all that was acknowledged is there.
"""
import hashlib
import os
import struct
import sys
import time

from nfsrpc import NFS, Client, call, handle, listing, lookup, mount, opaque

NOSPC = int(os.environ.get("FILL_STATUS", "28"))
EMPTY_MAX = 8000
SMALL = 16384
AHEAD = 64
LARGE_IO = 1 << 18


def filler(tag, length):
    return hashlib.shake_128(tag).digest(length)


def name_of(kind, i):
    return b"%07d" % i + (b"-" * 193 if kind == "empty" else b"")


def statuses(c, records):
    """Sends all, takes all replies; their results by xid."""
    first, c.xid = c.xid + 1, c.xid + len(records)
    c.s.sendall(b"".join(call(NFS, proc, args, first + i) for i, (proc, args) in enumerate(records)))
    results = {}
    for _ in records:
        r = c.record()
        results[struct.unpack(">I", r[:4])[0]] = r[24:]
    return [results[first + i] for i in range(len(records))]


def code(result):
    return struct.unpack(">I", result[:4])[0]


def new_handle(result):
    if result[4:8] != b"\0\0\0\1":
        sys.exit("no handle in a reply to CREATE")
    return handle(result[:4] + result[8:])


def write(fh, off, data):
    return 7, opaque(fh) + struct.pack(">QII", off, len(data), 2) + opaque(data)


def expect(result, what):
    if code(result) not in (0, NOSPC):
        sys.exit("%s: status %d" % (what, code(result)))
    return code(result) == 0


def fill_files(c, root, kind):
    made, full = [], False
    while not full and not (kind == "empty" and len(made) >= EMPTY_MAX):
        batch = range(len(made), len(made) + AHEAD)
        create = [(8, opaque(root) + opaque(name_of(kind, i)) + struct.pack(">I", 1) + b"\0" * 24) for i in batch]
        done = [(i, new_handle(r)) for i, r in zip(batch, statuses(c, create)) if expect(r, "CREATE")]
        full = len(done) < AHEAD
        good = done
        if kind == "small":
            results = statuses(c, [write(fh, 0, filler(name_of(kind, i), SMALL)) for i, fh in done])
            good = [d for d, r in zip(done, results) if expect(r, "WRITE")]
            full = full or len(good) < len(done)
            gone = [d for d in done if d not in good]
            for (i, _), r in zip(gone, statuses(c, [(12, opaque(root) + opaque(name_of(kind, i))) for i, _ in gone])):
                if code(r) != 0:
                    sys.exit("REMOVE on a full pool: status %d" % code(r))
        made += [i for i, _ in good]
    return len(made)


def fill_large(c, root):
    fh = new_handle(statuses(c, [(8, opaque(root) + opaque(b"large") + struct.pack(">I", 1) + b"\0" * 24)])[0])
    count = 0
    while expect(statuses(c, [write(fh, count * LARGE_IO, filler(b"%d" % count, LARGE_IO))])[0], "WRITE"):
        count += 1
    return count


def check_large(c, root, count):
    fh = lookup(c, root, "large")
    for i in range(count):
        r = statuses(c, [(6, opaque(fh) + struct.pack(">QI", i * LARGE_IO, LARGE_IO))])[0]
        if code(r) != 0 or r[-LARGE_IO:] != filler(b"%d" % i, LARGE_IO):
            sys.exit("block %d of the large file is wrong" % i)


def check(c, root, kind, count):
    if kind == "large":
        check_large(c, root, count)
        return
    have = {int(n[:7]) for n in listing(c, root) if n[:7].isdigit()}
    for i in range(count):
        if kind == "empty" and i not in have:
            sys.exit("file %d is gone" % i)
        if kind == "small" and i % 17 == 0 and i in have:
            fh = lookup(c, root, name_of(kind, i).decode())
            r = statuses(c, [(6, opaque(fh) + struct.pack(">QI", 0, SMALL))])[0]
            if code(r) != 0 or r[-SMALL:] != filler(name_of(kind, i), SMALL):
                sys.exit("file %d is wrong" % i)
    if len(have) < count:
        sys.exit("%d files, %d were made" % (len(have), count))


def remove(c, root):
    """All, in the order of a listing, which isn't that in which they were made. How many went."""
    names = [n for n in listing(c, root, plus=False) if n not in (b".", b"..", b".snapshot")]
    gone = 0
    for first in range(0, len(names), AHEAD):
        # the first ones one by one, each waited for
        for some in [[n] for n in names[first : first + AHEAD]] if first < 200 else [names[first : first + AHEAD]]:
            codes = [code(r) for r in statuses(c, [(12, opaque(root) + opaque(n)) for n in some])]
            gone += codes.count(0)
            if any(s != 0 for s in codes):
                sys.exit("REMOVE, after %d of %d: status %d" % (gone, len(names), max(codes)))
    return gone


def main():
    c = Client(int(sys.argv[1]), timeout=60)
    c.xid = int(time.time() * 1000) & 0x3FFFFFFF  # no call looks like one of an earlier run, sent again
    root, kind = mount(int(sys.argv[2]), sys.argv[3]), sys.argv[4]
    if sys.argv[5] == "fill":
        count = fill_large(c, root) if kind == "large" else fill_files(c, root, kind)
        print("%s: %d taken" % (kind, count))
    elif sys.argv[5] == "check":
        check(c, root, kind, int(sys.argv[6]))
        print("%s: all there" % kind)
    else:
        print("%s: %d removed" % (kind, remove(c, root)))


if __name__ == "__main__":
    main()
