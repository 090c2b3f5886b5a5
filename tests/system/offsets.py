#!/usr/bin/env python3
"""offsets.py NFS_PORT MOUNT_PORT EXPORT NAME: a file with some bytes around each power of two, up to what FSINFO says a file may
have and beyond: what is taken reads back, what isn't is NFS3ERR_FBIG, sizes of every kind can be set and taken back."""
import struct
import sys

from nfsrpc import NFS, Client, lookup, mount, opaque

FBIG = 27
LEN = 16


def main():
    c = Client(int(sys.argv[1]))
    root = mount(int(sys.argv[2]), sys.argv[3])
    c.ask(NFS, 8, opaque(root) + opaque(sys.argv[4].encode()) + struct.pack(">I", 1) + b"\0" * 24)
    fh = lookup(c, root, sys.argv[4])
    info = c.ask(NFS, 19, opaque(root))
    (largest,) = struct.unpack(">Q", info[8 + 84 + 28 : 8 + 84 + 36])
    if largest < 1 << 50:
        sys.exit("files of at most %d bytes" % largest)

    def write(off, data):
        return c.status(7, opaque(fh) + struct.pack(">QII", off, len(data), 2) + opaque(data))

    def read(off):
        r = c.ask(NFS, 6, opaque(fh) + struct.pack(">QI", off, LEN))
        count, _, length = struct.unpack(">III", r[92:104])
        if r[:4] != b"\0" * 4 or count != length:
            sys.exit("READ at %d: %r" % (off, r[:4]))
        return r[104 : 104 + length]

    def size(n):
        return c.status(2, opaque(fh) + b"\0" * 12 + struct.pack(">IQ", 1, n) + b"\0" * 12)

    places = [(1 << k) + d for k in range(12, 64) for d in (-5 * LEN // 2, LEN)]
    taken = []
    for off in places:
        status = write(off, b"%-16d" % (off % 10**15))
        if status == 0:
            taken.append(off)
        elif status != FBIG or off + LEN <= largest:
            sys.exit("WRITE at %d: status %d" % (off, status))
    for off in (2**63 - LEN, 2**63, 2**64 - LEN, 2**64 - 1):
        if write(off, b"x" * LEN) != FBIG:
            sys.exit("WRITE at %d was taken" % off)
    for off in taken:
        if read(off) != b"%-16d" % (off % 10**15):
            sys.exit("at %d: %r" % (off, read(off)))
    if read(2**64 - 1) != b"":
        sys.exit("bytes behind every end")
    for n, want in ((2**63, FBIG), (2**64 - 1, FBIG), (largest, 0), (2**40 + 3, 0), (5, 0), (0, 0), (largest, 0)):
        if size(n) != want:
            sys.exit("size %d: status %d" % (n, size(n)))
    if read(0) != b"\0" * LEN or size(0) != 0:
        sys.exit("what was cut off came back")
    print("%d of %d places taken" % (len(taken), len(places)))


if __name__ == "__main__":
    main()
