"""nvme_vm.py - a small virtual machine with NVMe drives behind an IOMMU, for the tests of the user-space driver.

It boots the image's kernel with an initramfs of busybox, the modules of VFIO and NVMe, and the programs of the build; a
shell on its second serial port runs what is sent. Each namespace of a drive is served by nbdkit with a cache that keeps
what the guest hasn't flushed, so that power_cut() loses that; pause_io() stalls a drive's I/O, fail_io() lets it fail.
Needs what images/build-image makes (kernel, modules), QEMU and nbdkit.
"""
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("AGATE_BUILD", os.path.join(TOP, "build"))
MODULES = """irqbypass vfio vfio_virqfd vfio_iommu_type1 vfio-pci-core vfio-pci
crc64 crc64-rocksoft crct10dif_common crc-t10dif t10-pi nvme-core nvme e1000""".split()
PROGRAMS = ["admin/agated", "cli/agate", "bench/nvme_bench", "tests/hw/nvme_hw"]
# MTU and network are QEMU's defaults; the machine's clock must not be the kernel's slow one.
KERNEL = "console=ttyS0 quiet panic=-1 mitigations=off intel_iommu=on no_timer_check clocksource=tsc tsc=reliable"
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin AGATE_SOCKET=/run/agate/agate.sock
mkdir -p /dev /proc /sys /tmp /run/agate /var/lib/agate
mount -t devtmpfs dev /dev; mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs tmp /tmp
for m in %(modules)s; do insmod /modules/$m.ko || echo "no module $m"; done
chmod 777 /run/agate
echo 'nvme[0-9]+n[0-9]+ 0:900 660' > /etc/mdev.conf
mdev -d; mdev -s
echo 60000 > /proc/sys/fs/aio-max-nr
ifconfig lo 127.0.0.1 up; ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
stty -F /dev/ttyS1 raw -echo
exec 3<>/dev/ttyS1
echo '##READY' >&3
while read -r line <&3; do
	eval "$line" > /tmp/.out 2>&1 3>&-
	status=$?
	cat /tmp/.out >&3
	echo "##DONE $status" >&3
done
"""


class Failed(Exception):
    pass


def say(text):
    print(f"== {text} ({time.monotonic() - say.start:.0f}s)", flush=True)


say.start = time.monotonic()


def wait_until(what, seconds, condition):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {seconds} s")
        time.sleep(0.1)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# ---- the initramfs: the image's, and behind it what replaces and adds to it ----


class Cpio:
    def __init__(self):
        self.bytes, self.inode, self.folders = bytearray(), 0, set()

    def add(self, path, data, mode):
        folder = os.path.dirname(path)
        if folder and folder not in self.folders:
            self.folders.add(folder)
            self.add(folder, b"", 0o040755)
        name = path.encode() + b"\0"
        self.inode += 1
        fields = [self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0]
        self.bytes += b"070701" + b"".join(b"%08x" % f for f in fields) + name
        self.bytes += b"\0" * (-len(self.bytes) % 4) + data
        self.bytes += b"\0" * (-len(self.bytes) % 4)

    def whole(self):
        self.add("TRAILER!!!", b"", 0)
        return bytes(self.bytes) + b"\0" * (-len(self.bytes) % 512)


def libraries(program):
    out = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+\.so\S*)", out)


def stripped(program, work):
    out = os.path.join(work, "stripped")
    subprocess.run(["strip", "-o", out, program], check=True)
    with open(out, "rb") as f:
        return f.read()


def make_initramfs(work):
    image = os.path.join(BUILD, "image")
    base = glob.glob(os.path.join(image, "base-*.tar"))
    if not base:
        raise Failed("images/build-image has to run first")
    c = Cpio()
    c.add("init", (INIT % {"modules": " ".join(MODULES)}).encode(), 0o100755)
    with tarfile.open(base[0]) as tar:
        for member in tar:
            name = os.path.basename(member.name)
            if name.endswith(".ko") and name[:-3] in MODULES:
                c.add("modules/" + name, tar.extractfile(member).read(), 0o100644)
    added = set()
    for program in PROGRAMS:
        path = os.path.join(BUILD, program)
        c.add("bin/" + os.path.basename(program), stripped(path, work), 0o100755)
        for library in libraries(path):
            if library not in added:
                added.add(library)
                with open(library, "rb") as f:
                    c.add(library.lstrip("/"), f.read(), 0o100755)
    c.add("etc/passwd", b"root:x:0:0::/:/bin/sh\nagate:x:900:900::/:/bin/false\n", 0o100644)
    c.add("etc/machine-id", b"0123456789abcdef0123456789abcdef\n", 0o100644)
    with open(os.path.join(image, "kernel", "initramfs"), "rb") as f:
        first = f.read()
    path = os.path.join(work, "initramfs")
    with open(path, "wb") as f:
        f.write(first + b"\0" * (-len(first) % 4) + c.whole())
    return path


# ---- drives ----


class Drive:
    """A controller. blocks: the block size of each of its namespaces. plain: a file, without nbdkit."""

    def __init__(self, serial, size="1G", blocks=(512,), plain=False):
        self.serial, self.size, self.blocks, self.plain = serial, size, blocks, plain
        self.names = [serial if len(blocks) == 1 else f"{serial}.{i + 1}" for i in range(len(blocks))]


class Vm:
    def __init__(self, work, drives, memory=900):
        self.work, self.drives, self.memory = work, drives, memory
        self.nfs_port, self.mount_port = free_port(), free_port()
        self.nbd, self.qemu, self.control, self.monitor = {}, None, None, None
        self.boots = 0
        self.initramfs = make_initramfs(work)
        for d in drives:
            for name in d.names:
                with open(self.path(name, "raw"), "wb") as f:
                    f.truncate(int(d.size[:-1]) << {"M": 20, "G": 30}[d.size[-1]])

    def path(self, name, kind):
        return os.path.join(self.work, f"{name}.{kind}")

    # -- power --

    def serve(self, name):
        for kind in ["sock", "pause", "pread", "pwrite"]:
            if os.path.exists(self.path(name, kind)):
                os.unlink(self.path(name, kind))
        self.nbd[name] = subprocess.Popen(
            ["nbdkit", "-f", "--filter=pause", "--filter=error", "--filter=cache", "-U", self.path(name, "sock"), "file",
             self.path(name, "raw"), "cache=writeback", "error=EIO", "error-pread-rate=100%", "error-pwrite-rate=100%",
             f"error-pread-file={self.path(name, 'pread')}", f"error-pwrite-file={self.path(name, 'pwrite')}",
             f"pause-control={self.path(name, 'pause')}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(f"nbdkit for {name}", 10, lambda: os.path.exists(self.path(name, "sock")))

    def arguments(self):
        a = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", "q35,kernel-irqchip=split", "-cpu", "max",
             "-smp", "2", "-m", str(self.memory), "-nodefaults", "-display", "none", "-vga", "none", "-no-reboot",
             "-device", "intel-iommu,intremap=on,caching-mode=on",
             "-kernel", os.path.join(BUILD, "image", "kernel", "vmlinuz"), "-initrd", self.initramfs, "-append", KERNEL,
             "-netdev", f"user,id=n,hostfwd=tcp:127.0.0.1:{self.nfs_port}-:2049,"
             f"hostfwd=tcp:127.0.0.1:{self.mount_port}-:20048", "-device", "e1000,netdev=n,romfile=",
             "-serial", "file:" + self.path(f"console{self.boots}", "log"),
             "-serial", f"unix:{self.path('control', 'sock')},server=on,wait=off",
             "-qmp", f"unix:{self.path('qmp', 'sock')},server=on,wait=off"]
        for i, d in enumerate(self.drives):
            a += ["-device", f"pcie-root-port,id=port-{d.serial},chassis={i + 1},slot={i + 1}"]
            for options in self.blockdevs(d):
                a += ["-blockdev", json.dumps(options)]
            for options in self.devices(d):
                a += ["-device", json.dumps(options)]
        return a

    def blockdevs(self, d):
        def below(name):
            if d.plain:
                return {"driver": "file", "filename": self.path(name, "raw")}
            return {"driver": "nbd", "server": {"type": "unix", "path": self.path(name, "sock")}}
        return [{"driver": "raw", "node-name": "b-" + name, "file": below(name)} for name in d.names]

    def devices(self, d):
        """One namespace: all in the controller. Several: of a subsystem, where they stay when the controller goes."""
        ctrl = {"driver": "nvme", "id": "c-" + d.serial, "serial": d.serial, "bus": "port-" + d.serial}
        blocks = lambda b: {"logical_block_size": b, "physical_block_size": b}
        if len(d.names) == 1:
            return [{**ctrl, "drive": "b-" + d.names[0], **blocks(d.blocks[0])}]
        subsystem = {"driver": "nvme-subsys", "id": "s-" + d.serial}
        namespaces = [{"driver": "nvme-ns", "id": "n-" + name, "bus": "c-" + d.serial, "drive": "b-" + name, "nsid": i + 1,
                       **blocks(d.blocks[i])} for i, name in enumerate(d.names)]
        return [subsystem, {**ctrl, "subsys": subsystem["id"]}, *namespaces]

    def start(self):
        self.boots += 1
        for name in [name for d in self.drives if not d.plain for name in d.names]:
            self.serve(name)
        for name in ["control", "qmp"]:
            if os.path.exists(self.path(name, "sock")):
                os.unlink(self.path(name, "sock"))
        with open(self.path("qemu", "log"), "a") as log:
            self.qemu = subprocess.Popen(self.arguments(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.control = self.connect("control")
        self.monitor = self.connect("qmp")
        self.qmp("qmp_capabilities")
        self.read_until("##READY", 240)

    def connect(self, name):
        path = self.path(name, "sock")
        wait_until(f"QEMU's {name}", 20, lambda: os.path.exists(path) or self.qemu.poll() is not None)
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        return s

    def power_cut(self):
        """Everything at once; what the guest has not flushed is lost."""
        for p in [*self.nbd.values(), self.qemu]:
            if p is not None:
                p.kill()
        for p in [*self.nbd.values(), self.qemu]:
            if p is not None:
                p.wait()
        for s in [self.control, self.monitor]:
            if s is not None:
                s.close()
        self.nbd, self.qemu, self.control, self.monitor = {}, None, None, None

    # -- the shell inside --

    def read_until(self, mark, seconds):
        """What comes up to a line that begins with mark, and the rest of that line."""
        end, seen = time.monotonic() + seconds, b""
        while True:
            m = re.search(rb"(?:^|\n)" + mark.encode() + rb" ?([^\n]*)\n", seen)
            if m:
                return seen[:m.start()].decode(errors="replace"), m.group(1).decode()
            self.control.settimeout(max(end - time.monotonic(), 0.01))
            try:
                more = self.control.recv(65536)
            except TimeoutError:
                more = b""
            if not more:
                raise Failed(f"the guest's shell is silent; so far: {seen[-500:].decode(errors='replace')}\n{self.console()}")
            seen += more.replace(b"\r", b"")

    def run(self, line, seconds=60):
        """Status and output of a line of shell in the guest."""
        self.control.sendall(line.encode() + b"\n")
        out, status = self.read_until("##DONE", seconds)
        return int(status), out

    def must(self, line, seconds=60):
        status, out = self.run(line, seconds)
        if status != 0:
            raise Failed(f"'{line}' ended with {status}: {out}")
        return out

    def console(self):
        with open(self.path(f"console{self.boots}", "log"), errors="replace") as f:
            return "".join(f.readlines()[-12:])

    # -- QEMU's monitor --

    def qmp(self, command, **arguments):
        self.monitor.settimeout(60)
        self.monitor.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        if not hasattr(self, "lines") or self.lines[0] is not self.monitor:
            self.lines = (self.monitor, self.monitor.makefile("r"))
        for line in self.lines[1]:
            answer = json.loads(line)
            if "error" in answer:
                raise Failed(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]
        raise Failed(f"{command}: QEMU has gone")

    def unplug(self, d):
        self.qmp("device_del", id="c-" + d.serial)

    def is_plugged(self, d):
        return any(x["name"] == "c-" + d.serial for x in self.qmp("qom-list", path="/machine/peripheral"))

    def plug(self, d):
        for options in self.devices(d):
            if options["driver"] == "nvme":
                self.qmp("device_add", **options)

    def fail_io(self, name, kind, on):
        """kind: pread or pwrite."""
        if on:
            open(self.path(name, kind), "w").close()
        else:
            os.unlink(self.path(name, kind))

    def pause_io(self, name, on):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.path(name, "pause"))
            s.settimeout(0.5)
            s.sendall(b"p" if on else b"r")
            try:
                s.recv(1)  # a pause is confirmed when what was under way has ended
            except TimeoutError:
                pass

    # -- agated in the guest --

    def agated(self, *options):
        self.must("agated -c /dev/null -o nfs_port=2049 -o mount_port=20048 -o portmap=off -o memory_bytes=96M -o user=agate "
                  + " ".join("-o " + o for o in options) + " >> /tmp/agated.log 2>&1 &")
        self.wait_for_agated(60)

    def wait_for_agated(self, seconds, pools=None):
        pattern = "^pid" if pools is None else f"^pools.{pools}"
        wait_until("agated's answer", seconds,
                   lambda: self.run(f"agate system status -H | grep -q '{pattern}'", 60)[0] == 0)

    def log(self):
        return self.run("cat /tmp/agated.log")[1]

    def url(self, path, options=""):
        return f"nfs://127.0.0.1{path}?nfsport={self.nfs_port}&mountport={self.mount_port}&version=3&uid=0&gid=0{options}"


children = []


def start(arguments):
    """A program that doesn't outlive the test, nor do its children."""
    children.append(subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                     start_new_session=True))
    return children[-1]


def run_test(main):
    """In a folder of its own, which is kept with AGATE_KEEP=1; exit status 1 on Failed."""
    base = "/dev/shm" if shutil.disk_usage("/dev/shm").free > 6 << 30 else os.environ.get("TMPDIR", "/tmp")
    work = os.path.join(base, f"agate-nvme-{os.getpid()}")
    os.mkdir(work)
    machines = []
    try:
        main(work, machines)
        print("passed")
        return 0
    except (Failed, subprocess.SubprocessError, OSError) as e:
        print(f"FAILED: {e}")
        for vm in machines:
            if vm.qemu is not None and vm.qemu.poll() is None:
                print("-- the console:", vm.console())
                try:
                    print("-- agated's last lines:", vm.run("tail -n 25 /tmp/agated.log")[1])
                except (Failed, OSError):
                    pass
        return 1
    finally:
        for p in children:
            if p.poll() is None:
                os.killpg(p.pid, signal.SIGKILL)
                p.wait()
        for vm in machines:
            vm.power_cut()
        if os.environ.get("AGATE_KEEP"):
            print(f"kept: {work}")
        else:
            shutil.rmtree(work)
