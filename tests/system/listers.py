#!/usr/bin/env python3
"""listers.py NFS_PORT MOUNT_PORT EXPORT make|list DIR COUNT CLIENTS: makes a directory of COUNT files; lets so many clients list
it at once, half of them with attributes. Each must get every name exactly once, whatever the others do.
"""
import multiprocessing
import struct
import sys
import time

from nfsrpc import NFS, Client, call, listing, lookup, mount, opaque

AHEAD = 200


def make(port, root, name, count):
    c = Client(port)
    c.ask(NFS, 9, opaque(root) + opaque(name) + b"\0" * 24)
    fh = lookup(c, root, name.decode())
    for first in range(0, count, AHEAD):
        batch = range(first, min(first + AHEAD, count))
        names = [b"file %07d, one of many" % i for i in batch]
        c.s.sendall(b"".join(call(NFS, 8, opaque(fh) + opaque(n) + struct.pack(">I", 1) + b"\0" * 24, i) for i, n in zip(batch, names)))
        for _ in batch:
            if c.record()[20:28] != b"\0" * 8:
                sys.exit("a file was not made")
    c.close()


def lister(number, port, fh, count):
    c = Client(port, timeout=60)
    began = time.time()
    names = listing(c, fh, plus=number % 2 == 0, count=(65536, 65536, 8192, 4096)[number % 4])
    names = [n for n in names if n not in (b".", b"..")]
    c.close()
    if len(names) != count or len(set(names)) != count:
        print("client %d: %d names, %d different" % (number, len(names), len(set(names))))
        sys.exit(1)
    print("client %d: %.1f s" % (number, time.time() - began))


def main():
    port, count = int(sys.argv[1]), int(sys.argv[6])
    root = mount(int(sys.argv[2]), sys.argv[3])
    if sys.argv[4] == "make":
        make(port, root, sys.argv[5].encode(), count)
        return
    c = Client(port)
    fh = lookup(c, root, sys.argv[5])
    c.close()
    clients = [multiprocessing.Process(target=lister, args=(i, port, fh, count)) for i in range(int(sys.argv[7]))]
    for p in clients:
        p.start()
    for p in clients:
        p.join()
    if any(p.exitcode != 0 for p in clients):
        sys.exit("a client failed")


if __name__ == "__main__":
    main()
