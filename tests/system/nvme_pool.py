"""nvme_pool.py - a pool on the drives of nvme_vm.py: what it says of them, and clients that work on it meanwhile."""
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nvme_vm import BUILD, Failed, say, start, wait_until  # noqa: E402

DURABLE = os.path.join(BUILD, "tests/system/durable")
SHARE = "/tank/share"


def address(vm, drive):
    return f"0000:{vm.drives.index(drive) + 1:02x}:00.0"


def paths(vm, drive):
    return [f"pci:{address(vm, drive)}/{i + 1}" for i in range(len(drive.blocks))]


def find_list(answer):
    while isinstance(answer, dict):
        answer = next(v for v in answer.values() if isinstance(v, (dict, list)))
    return answer


def status(vm):
    return json.loads(vm.must("agate pool status tank -j"))["result"][0]


def member(pool, path):
    """Of a set; None: it is in none."""
    return next((d for s in pool["sets"] for d in s["drives"] if d["path"] == path), None)


def state(vm, path):
    """A spare that waits is in no set: None."""
    d = member(status(vm), path)
    return d and d["state"]


def wait_for_states(vm, drive, wanted, seconds):
    wait_until(f"{drive.serial} being {wanted}", seconds, lambda: all(state(vm, p) in wanted for p in paths(vm, drive)))


def bring_back(vm):
    """What is sound is taken back by hand, as an administrator would: also a drive that the load of the host made late."""
    def all_online():
        pool = status(vm)
        states = [d["state"] for s in pool["sets"] for d in s["drives"]]
        if "FAULTED" in states or "DEGRADED" in states:
            vm.must("agate pool clear tank")
        return all(s == "ONLINE" for s in states)
    try:
        wait_until("all drives being ONLINE", 180, all_online)
    except Failed as e:
        raise Failed(f"{e}\n{vm.must('agate pool status tank; agate pool events tank | tail -n 12')}") from e


def make_share(vm):
    vm.must(f"agate share create -o rw=10.0.2.2 -o squash=no_root_squash -o insecure=on {SHARE}")


def check(vm, name):
    """The checker's last line; nothing that was acknowledged to this load may be missing."""
    p = subprocess.run([DURABLE, vm.url(SHARE), "check", vm.path(name, "journal"), name, "4"], capture_output=True,
                       text=True, timeout=300)
    last = p.stdout.strip().split("\n")[-1]
    if p.returncode != 0 or "LOST 0, WRONG 0" not in last or last.startswith("durable: 0 "):
        raise Failed(f"{name}: {p.stdout}{p.stderr}")
    return last


class Load:
    """Clients that write and read; none of them may see an error. cut: the server goes before they end."""
    count = 0

    def __init__(self, vm, what, seconds, cut=False):
        Load.count += 1
        self.vm, self.what, self.name, self.cut = vm, what, f"load{Load.count}", cut
        options = "&autoreconnect=0&timeout=60000" if cut else "&timeout=90000"
        self.p = start([DURABLE, vm.url(SHARE, options), "run", vm.path(self.name, "journal"), self.name, "4",
                        str(Load.count), str(seconds)])
        time.sleep(2)

    def wait(self, now=False):
        """For its end; now: what is under way is the last."""
        if now and self.p.poll() is None:
            os.killpg(self.p.pid, signal.SIGTERM)
        out, _ = self.p.communicate(timeout=180)
        if self.p.returncode != (3 if self.cut else 0):
            raise Failed(f"{self.what}: a client had an error ({self.p.returncode}): {out}")

    def end(self, now=False):
        self.wait(now)
        say(f"{self.what}: {self.check()}")

    def check(self):
        return check(self.vm, self.name)
