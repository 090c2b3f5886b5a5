"""nfsrpc.py: just enough of ONC RPC, MOUNT and NFSv3 to say things that no library would."""

import socket
import struct

NFS, MOUNT, PORTMAP = 100003, 100005, 100000
STALE = 70


def opaque(data):
    return struct.pack(">I", len(data)) + data + b"\0" * (-len(data) % 4)


def call(prog, proc, args, xid=1, vers=3, uid=0, gid=0):
    """A record: mark, call header with AUTH_SYS, arguments."""
    body = struct.pack(">10I", xid, 0, 2, prog, vers, proc, 1, 20, 0, 0) + struct.pack(">3I", uid, gid, 0)
    body += struct.pack(">2I", 0, 0) + args
    return struct.pack(">I", 0x80000000 | len(body)) + body


class Client:
    """One connection; ask() takes the reply to each call before the next."""

    def __init__(self, port, source="127.0.0.1", timeout=30, uid=0):
        self.port, self.source, self.timeout, self.uid = port, source, timeout, uid
        self.xid = 0
        self.s = None
        self.connect()

    def connect(self):
        self.close()
        self.s = socket.socket()
        self.s.bind((self.source, 0))
        self.s.settimeout(self.timeout)
        self.s.connect(("127.0.0.1", self.port))

    def close(self):
        if self.s is not None:
            self.s.close()
            self.s = None

    def exactly(self, count):
        data = bytearray()
        while len(data) < count:
            more = self.s.recv(count - len(data))
            if not more:
                raise ConnectionError("the server closed the connection")
            data += more
        return bytes(data)

    def record(self):
        (mark,) = struct.unpack(">I", self.exactly(4))
        return self.exactly(mark & 0x7FFFFFFF)

    def ask(self, prog, proc, args, vers=3):
        """The result, behind the header of an accepted reply."""
        self.xid += 1
        self.s.sendall(call(prog, proc, args, self.xid, vers, self.uid))
        while True:
            reply = self.record()
            xid, _, stat = struct.unpack(">3I", reply[:12])
            if xid == self.xid:
                break
        if stat != 0 or reply[20:24] != b"\0\0\0\0":
            raise ValueError("not accepted: %r" % reply[:32])
        return reply[24:]

    def status(self, proc, args):
        return struct.unpack(">I", self.ask(NFS, proc, args)[:4])[0]


def handle(result):
    """The handle that begins the result of MNT or LOOKUP."""
    status, length = struct.unpack(">2I", result[:8])
    if status != 0:
        raise ValueError("status %d" % status)
    return result[8 : 8 + length]


def mount(port, path):
    c = Client(port)
    fh = handle(c.ask(MOUNT, 1, opaque(path.encode())))
    c.close()
    return fh


def lookup(client, fh, name):
    return handle(client.ask(NFS, 3, opaque(fh) + opaque(name.encode())))


def listing(client, fh, plus=True, count=65536):
    """Names of a directory, with READDIRPLUS or READDIR; they must come once each and end."""
    names, cookie, verf = [], 0, b"\0" * 8
    while True:
        args = opaque(fh) + struct.pack(">Q", cookie) + verf
        args += struct.pack(">2I", count, count) if plus else struct.pack(">I", count)
        r = client.ask(NFS, 17 if plus else 16, args)
        if r[:4] != b"\0\0\0\0":
            raise ValueError("status %d" % struct.unpack(">I", r[:4])[0])
        at = 8 + (84 if r[7] else 0)
        verf = r[at : at + 8]
        at += 8
        while r[at + 3]:
            (length,) = struct.unpack(">I", r[at + 12 : at + 16])
            names.append(r[at + 16 : at + 16 + length])
            at += 16 + (length + 3 & ~3)
            (cookie,) = struct.unpack(">Q", r[at : at + 8])
            at += 8
            if plus:
                at += 4 + (84 if r[at + 3] else 0)
                at += 4 + (4 + struct.unpack(">I", r[at + 4 : at + 8])[0] if r[at + 3] else 0)
        if r[at + 7]:
            return names
