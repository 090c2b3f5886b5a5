#!/usr/bin/env python3
"""hostile.py NFS_PORT MOUNT_PORT EXPORT FILE: clients that don't read, that send halves, that connect again and again, that
send nothing but empty fragments, or datagrams without end, while another asks.

FILE exists in EXPORT and is at least 8 MiB. Exit 0: the other client was answered each time within ANSWER_S, which is
well under the time after which the server cuts the hostile ones off.
"""
import multiprocessing
import os
import socket
import struct
import sys
import time

from nfsrpc import MOUNT, NFS, Client, call, lookup, mount, opaque

ANSWER_S = float(os.environ.get("AGATE_ANSWER_S", 10))
SLOW_READERS = 40
READS_EACH = 256
HALVES = 100
IDLE = 5000
FRAGMENTERS = 4


def answered(port, root, source="127.0.0.2"):
    c = Client(port, source, ANSWER_S)
    c.ask(NFS, 0, b"")
    if c.status(1, opaque(root)) != 0:
        raise ValueError("GETATTR failed")
    c.close()


def send_some(c, data):
    c.s.setblocking(False)
    try:
        c.s.send(data)
    except BlockingIOError:
        pass


def slow_readers(port, root, fh):
    read = b"".join(
        call(NFS, 6, opaque(fh) + struct.pack(">QI", (i % 8) << 20, 1 << 20), i) for i in range(READS_EACH)
    )
    held = [Client(port) for _ in range(SLOW_READERS)]
    for c in held:
        send_some(c, read)
    answered(port, root)
    answered(port, root, "127.0.0.1")
    for c in held:
        c.close()
    print("answered beside %d clients that don't read" % SLOW_READERS)


def halves(port, root):
    held = [Client(port) for _ in range(HALVES)]
    for c in held:
        send_some(c, struct.pack(">I", 0x80000000 | (1 << 20) | 200) + b"\0" * 900000)
    answered(port, root)
    for c in held:
        c.close()
    print("answered beside %d clients that send halves" % HALVES)


def idle(port, root):
    """More connections than there are places, all of one address; as many as this machine lets one process have."""
    held = []
    try:
        for _ in range(IDLE):
            held.append(Client(port, "127.0.0.3"))
    except OSError:
        pass
    answered(port, root)
    for c in held:
        c.close()
    print("answered beside %d connections of one address" % len(held))


def empty_fragments(port):
    c = Client(port, "127.0.0.4")
    c.s.settimeout(None)
    junk = b"\0" * (1 << 20)
    try:
        while True:
            c.s.sendall(junk)
    except OSError:
        pass


def datagrams(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("127.0.0.5", 0))
    junk = call(MOUNT, 1, opaque(b"/nosuch/share"))[4:]
    while True:
        try:
            s.sendto(junk, ("127.0.0.1", port))
        except OSError:
            pass


def unceasing(what, target, target_port, port, root):
    held = [multiprocessing.Process(target=target, args=(target_port,), daemon=True) for _ in range(FRAGMENTERS)]
    for p in held:
        p.start()
    time.sleep(1)
    for _ in range(20):
        answered(port, root)
    for p in held:
        p.terminate()
        p.join()
    print("answered beside %d clients that send %s" % (FRAGMENTERS, what))


def main():
    port = int(sys.argv[1])
    root = mount(int(sys.argv[2]), sys.argv[3])
    c = Client(port)
    fh = lookup(c, root, sys.argv[4])
    c.close()
    slow_readers(port, root, fh)
    halves(port, root)
    idle(port, root)
    unceasing("empty fragments", empty_fragments, port, port, root)
    unceasing("datagrams", datagrams, int(sys.argv[2]), port, root)


if __name__ == "__main__":
    main()
