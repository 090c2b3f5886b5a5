#!/usr/bin/env python3
"""tidy.py - house rules that a program can check; prints one line per breach, exits 1 when there are any.

Rules: calls go down (includes between rooms); private headers stay in their room; a source file includes its own header
first; sizes of files and functions; no dead code, no doubts left in place, no machine's paths; manual pages that say
what the programs say; tests that can be run.
"""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(TOP)

# A room may include headers of these besides its own: the public header of those listed here...
BELOW = {
    "base": [],
    "kernel-bypass": ["base"],
    "raidz": ["kernel-bypass", "base"],
    "intentlog": ["kernel-bypass", "base"],
    "pool": ["raidz", "intentlog", "kernel-bypass", "base"],
    "fs": ["pool", "raidz", "kernel-bypass", "base"],
    "nfsd": ["fs", "pool", "base"],
    "admin": ["nfsd", "fs", "pool", "raidz", "intentlog", "kernel-bypass", "base"],
    "cli": ["admin", "base"],
    "dump": ["base"],
}
# ... and which headers of a room are public, besides <room>/<room>.h.
PUBLIC = {
    "base": None,  # all but *_int.h
    "kernel-bypass": ["kb.h", "kb_sim.h", "kb_nvme.h"],
    "raidz": ["raidz.h"],
    "intentlog": ["ilog.h"],
    "pool": ["pool.h", "pool_format.h"],
    "fs": ["fs.h"],
    "nfsd": ["nfsd.h"],
    "admin": ["protocol.h"],  # for cli/
    "cli": [],
    "dump": [],
}
# Headers that another room may see although they aren't public, with the reason.
EXCEPTIONS = {
    ("dump", "pool/pool_format.h"): "the on-disk structures are the format",
}
FILE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 70
TEST_FUNCTION_LINES_MAX = 100
breaches = []


def breach(path, line, text):
    breaches.append(f"{path}:{line}: {text}")


def tracked():
    out = subprocess.run(["git", "ls-files"], capture_output=True, text=True)
    if out.returncode == 0:
        return [p for p in out.stdout.split("\n") if p and os.path.exists(p)]
    found = []  # a tree without git
    for folder, dirs, files in os.walk("."):
        dirs[:] = [d for d in dirs if not d.startswith((".", "build")) and d != "autom4te.cache"]
        found += [os.path.relpath(os.path.join(folder, f)) for f in files]
    return found


def room_of(path):
    return path.split("/")[0]


def is_public(header):
    room, name = room_of(header), header.split("/", 1)[1]
    if room not in PUBLIC:
        return False
    return not name.endswith("_int.h") if PUBLIC[room] is None else name in PUBLIC[room]


def check_include(path, number, header):
    here, there = room_of(path), room_of(header)
    if there not in BELOW or here == there or here not in BELOW:
        return
    if (here, header) in EXCEPTIONS:
        return
    if there not in BELOW[here]:
        breach(path, number, f"{here}/ may not know {there}/ ({header})")
    elif not is_public(header):
        breach(path, number, f"{header} is private to {there}/")


def check_own_header_first(path, includes):
    own = path[:-2] + ".h"
    if not path.endswith(".c") or not os.path.exists(own) or own not in [h for _, h in includes]:
        return
    if includes[0][1] != own:
        breach(path, includes[0][0], f"{own} has to be the first of this project's includes")


BANNED = [
    (re.compile(r"^\s*#\s*if\s+0\b"), "dead code"),
    (re.compile(r"\bXXX\b|\bFIXME\b|\bTODO\b(?!\(#\d+\))"), "a doubt left in place"),
    (re.compile(r"/(work|root|home/[a-z]+|tmp/agate)/"), "a path of somebody's machine"),
    (re.compile(r"\b(typedef\s+struct)\b"), "typedef of a struct"),
]
# Where a rule doesn't fit, with the reason.
ALLOWED = {
    ("tests/lib/nfsclient.c", "typedef of a struct"): "rpcgen's names for its own types",
}
# Generated, or not ours to shape.
UNCHECKED = re.compile(r"^(LICENSE|docs/|tests/golden/.*\.txt|.*\.(img|xz|zst|gz|bin|csv|x))|^tests/tidy/")


def check_text(path, lines):
    for number, line in enumerate(lines, 1):
        for pattern, what in BANNED:
            if pattern.search(line) and (path, what) not in ALLOWED:
                breach(path, number, what)
    if len(lines) > FILE_LINES_MAX:
        breach(path, FILE_LINES_MAX, f"{len(lines)} lines; at most {FILE_LINES_MAX}")


def check_functions(path, lines):
    """A function's body is between '{' and '}' in the first column."""
    most = TEST_FUNCTION_LINES_MAX if path.startswith(("tests/", "bench/")) else FUNCTION_LINES_MAX
    start = None
    for number, line in enumerate(lines, 1):
        if line.rstrip() == "{":
            start = number
        elif line.startswith("}") and start is not None:
            if line.rstrip() == "}" and number - start - 1 > most:
                breach(path, start, f"a function of {number - start - 1} lines; at most {most}")
            start = None


def check_c(path, lines):
    includes = []
    for number, line in enumerate(lines, 1):
        m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if m:
            includes.append((number, m.group(1)))
            check_include(path, number, m.group(1))
    check_own_header_first(path, includes)
    check_functions(path, lines)


def check_manuals(files):
    for path in files:
        if not re.search(r"\.[1-8]$", path):
            continue
        text = open(path).read()
        for section in ["NAME", "EXIT STATUS", "EXAMPLES"]:
            if f".Sh {section}" not in text:
                breach(path, 1, f"no section {section}")
        try:
            lint = subprocess.run(["mandoc", "-Tlint", path], capture_output=True, text=True).stdout
        except FileNotFoundError:
            continue
        for line in lint.split("\n"):
            if line and "referenced manual not found" not in line and "outdated mandoc.db" not in line:
                breaches.append(line.replace("mandoc: ", "", 1))


def check_synopsis():
    """agate.8 lists what the program's help lists, word by word."""
    build = os.environ.get("AGATE_BUILD", os.path.join(TOP, "build"))
    agate = os.path.join(build, "cli", "agate")
    if not os.path.exists(agate):
        breach("cli/agate.8", 1, f"can't be compared: {agate} isn't built")
        return
    said = subprocess.run([agate, "help"], capture_output=True, text=True).stdout.split("\n")
    said = ["agate " + line for line in said if line and not line.startswith("help NOUN")]
    page = open("cli/agate.8").read().split("\n")
    for line in said:
        if line not in page:
            breach("cli/agate.8", 1, f"SYNOPSIS lacks: {line}")
    for line in page:
        if line.startswith("agate ") and line in page[: page.index(".Sh DESCRIPTION")] and line not in said:
            breach("cli/agate.8", page.index(line) + 1, f"there is no such command: {line}")


def check_usage(page, program):
    """What a program says of its usage is what its manual's SYNOPSIS shows."""
    build = os.environ.get("AGATE_BUILD", os.path.join(TOP, "build"))
    try:
        shown = subprocess.run(["mandoc", "-Tutf8", page], capture_output=True, text=True).stdout
        said = subprocess.run([os.path.join(build, program), "-?"], capture_output=True, text=True).stderr
    except FileNotFoundError:
        return
    shown = " ".join(re.sub(".\b", "", shown).split())
    for line in said.split("\n"):
        if line.startswith("usage: ") and " ".join(line[len("usage: "):].split()) not in shown:
            breach(page, 1, f"SYNOPSIS lacks: {line[len('usage: '):]}")


def check_readmes():
    for room in BELOW:
        if os.path.isdir(room) and not os.path.exists(f"{room}/README.md"):
            breach(room, 1, "no README.md")


def check_runnable(files):
    for path in files:
        if path.endswith(".test") and not os.access(path, os.X_OK):
            breach(path, 1, "a test that can't be run: chmod +x")


def main():
    files = tracked()
    for path in files:
        if UNCHECKED.search(path):
            continue
        try:
            lines = open(path, encoding="utf-8").read().split("\n")
        except UnicodeDecodeError:
            continue
        check_text(path, lines)
        if path.endswith((".c", ".h")):
            check_c(path, lines)
    check_manuals(files)
    check_synopsis()
    check_usage("admin/agated.8", "admin/agated")
    check_readmes()
    check_runnable(files)
    for line in breaches:
        print(line)
    print(f"tidy: {len(files)} files, {len(breaches)} breaches")
    return 1 if breaches else 0


sys.exit(main())
