# lib.sh - sourced by the system tests: a daemon on image files in a directory of its own, gone at the end.
#
# After start: $engine (pid), $nfs_port, $mount_port; agate runs commands against it. fail ends the test.
# AGATE_BUILD: the build directory. AGATE_KEEP=1 leaves the directory.
set -uo pipefail
test_name=$(basename "$0" .test)
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${AGATE_BUILD:-$top/build}
daemon= engine= nfs_port= mount_port=

# Memory is where images are fastest; a machine with little of it uses the disk.
base=/dev/shm
[ "$(df --output=avail -m "$base" 2>/dev/null | tail -1)" -ge 6000 ] 2>/dev/null || base=${TMPDIR:-/tmp}
work=$(mktemp -d "$base/agate-$test_name-XXXXXX")
drives=$work/drives
log=$work/agated.log
mkdir "$drives"
export AGATE_SOCKET=$work/agate.sock

say() { printf '== %s (%ds)\n' "$*" "$SECONDS"; }
# says PATTERN: is it in the input? All of that is read, as grep -q would not: who writes it must not die of a closed pipe.
says() { [ "$(grep -c "$@")" -gt 0 ]; }

fail() {
	printf 'FAILED: %s\n' "$*"
	[ -e "$log" ] && { echo "-- the last lines of agated:"; tail -n 20 "$log"; }
	exit 1
}

cleanup() {
	local status=$?
	[ -n "$daemon" ] && kill -9 "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null
	if [ -n "${AGATE_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
	exit "$status"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

agate() { "$build/cli/agate" "$@"; }

# must COMMAND...: it has to succeed.
must() {
	"$@" >"$work/out" 2>&1
	local status=$?
	[ "$status" -eq 0 ] || { cat "$work/out"; fail "$*: exit $status"; }
}

# same WHAT EXPECTED GOT
same() { [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"; }

# images SIZE NAME...: sparse image files.
images() {
	local size=$1
	shift
	for name in "$@"; do truncate -s "$size" "$drives/$name.img" || fail "no image $name"; done
}

# start [-o key=value]...: the daemon, until it answers.
start() {
	"$build/admin/agated" -R -c /dev/null -o listen=127.0.0.1 -o nfs_port="${fixed_nfs_port:-0}" \
		-o mount_port=0 -o portmap=off -o socket="$AGATE_SOCKET" -o drives_dir="$drives" \
		-o memory_bytes="${AGATE_MEMORY:-512M}" "$@" 2>>"$log" &
	daemon=$!
	local try
	for try in $(seq 1200); do
		if agate system status -H >"$work/status" 2>/dev/null; then break; fi
		kill -0 "$daemon" 2>/dev/null || fail "agated ended"
		[ "$try" = 1200 ] && fail "agated doesn't answer"
		sleep 0.05
	done
	engine=$(fact pid) nfs_port=$(fact nfs_port) mount_port=$(fact mount_port)
}

# fact NAME: of the last system status.
fact() { awk -F'\t' -v name="$1" '$1 == name { print $2 }' "$work/status"; }

# stop: cleanly; the parent has to say it went well.
stop() {
	kill "$daemon"
	wait "$daemon"
	local status=$?
	daemon=
	[ "$status" -eq 0 ] || fail "agated ended with $status"
	grep heap-left-over "$log" && fail "agated leaks"
}

# crash: the engine dies at once; without -R's opposite the parent ends, too.
crash() {
	kill -9 "$engine"
	wait "$daemon" 2>/dev/null
	daemon=
}

# url /pool/share[/file]: for the utilities of libnfs.
url() { printf 'nfs://127.0.0.1%s?nfsport=%s&mountport=%s&version=3' "$1" "$nfs_port" "$mount_port"; }

# put FILE /pool/share/file; same_file FILE /pool/share/file
put() { nfs-cp "$1" "$(url "$2")" >"$work/out" 2>&1 || { cat "$work/out"; fail "nfs-cp $1 $2"; }; }
same_file() { nfs-cat "$(url "$2")" 2>"$work/out" | cmp -s - "$1" || { cat "$work/out"; fail "$2 differs from $1"; }; }

# make_tank [SIZE]: seven drives in one set and two log drives, /tank/share for everyone on this machine.
make_tank() {
	images "${1:-256M}" d{0..6} log0 log1
	start
	must agate pool create tank raidz1 'd[0-6]' log mirror 'log[0-1]'
	must agate share create -o rw=127.0.0.1 -o squash=no_root_squash -o insecure=on /tank/share
}

# check_pools POOL...: no problem in any of them.
check_pools() {
	for pool in "$@"; do
		agate pool check "$pool" >"$work/out" 2>&1 || { cat "$work/out"; fail "pool check $pool"; }
	done
}
