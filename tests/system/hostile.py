#!/usr/bin/env python3
"""hostile.py NFS_PORT MOUNT_PORT EXPORT FILE: clients that don't read, and clients that send halves, while another asks.

FILE exists in EXPORT and is at least 8 MiB. Exit 0: the other client was answered each time within ANSWER_S, which is
well under the time after which the server cuts the hostile ones off.
"""
import socket
import struct
import sys

ANSWER_S = 10
SLOW_READERS = 40
READS_EACH = 256
HALVES = 100


def call(prog, proc, args, xid=1):
    body = struct.pack(">10I", xid, 0, 2, prog, 3, proc, 1, 20, 0, 0) + struct.pack(">3I", 0, 0, 0)
    body += struct.pack(">2I", 0, 0) + args
    return struct.pack(">I", 0x80000000 | len(body)) + body


def opaque(data):
    return struct.pack(">I", len(data)) + data + b"\0" * (-len(data) % 4)


def connect(port, source="127.0.0.1"):
    s = socket.socket()
    s.bind((source, 0))
    s.settimeout(ANSWER_S)
    s.connect(("127.0.0.1", port))
    return s


def ask(port, prog, proc, args, source="127.0.0.1"):
    """One call on a connection of its own; the result behind the reply's header."""
    s = connect(port, source)
    s.sendall(call(prog, proc, args))
    data = b""
    while len(data) < 4 or len(data) < 4 + (struct.unpack(">I", data[:4])[0] & 0x7FFFFFFF):
        more = s.recv(65536)
        if not more:
            raise ConnectionError("the server closed the connection")
        data += more
    s.close()
    return data[28:]


def handle(result):
    if struct.unpack(">I", result[:4])[0] != 0:
        raise ValueError("status %d" % struct.unpack(">I", result[:4])[0])
    length = struct.unpack(">I", result[4:8])[0]
    return result[8 : 8 + length]


def send_some(s, data):
    s.setblocking(False)
    try:
        s.send(data)
    except BlockingIOError:
        pass


def main():
    port, mount_port = int(sys.argv[1]), int(sys.argv[2])
    root = handle(ask(mount_port, 100005, 1, opaque(sys.argv[3].encode())))
    fh = handle(ask(port, 100003, 3, opaque(root) + opaque(sys.argv[4].encode())))
    read = b"".join(
        call(100003, 6, opaque(fh) + struct.pack(">QI", (i % 8) << 20, 1 << 20), i) for i in range(READS_EACH)
    )
    held = []
    for _ in range(SLOW_READERS):
        s = connect(port)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        send_some(s, read)
        held.append(s)
    ask(port, 100003, 0, b"", "127.0.0.2")
    ask(port, 100003, 1, opaque(root))
    print("answered beside %d clients that don't read" % SLOW_READERS)
    for s in held:
        s.close()
    held = []
    for _ in range(HALVES):
        s = connect(port)
        send_some(s, struct.pack(">I", 0x80000000 | (1 << 20) | 200) + b"\0" * 900000)
        held.append(s)
    ask(port, 100003, 0, b"", "127.0.0.2")
    print("answered beside %d clients that send halves" % HALVES)


if __name__ == "__main__":
    main()
