# vm_lib.sh - sourced by the tests that run the image: one virtual appliance in a directory of its own, gone at the end.
#
# To be set before: VM_FIRMWARE, VM_BUS, VM_CACHE, ... of images/vm.sh. After: $url is the share's, for libnfs.
# AGATE_BUILD: the build directory. AGATE_KEEP=1 leaves the directory.
# Boot times on a machine without KVM vary with its load: the waits are long, and end as soon as what they wait for comes.
set -uo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
export AGATE_BUILD=${AGATE_BUILD:-$top/build}
VM_DIR=$(mktemp -d "${TMPDIR:-/tmp}/agate-vm-XXXXXX")
VM_DRIVE_SIZE=512M
. "$top/images/vm.sh"
durable=$AGATE_BUILD/tests/system/durable

say() { printf '== %s (%ds)\n' "$*" "$SECONDS"; }
fail() {
	printf 'FAILED: %s\n-- the console:\n' "$*"
	vm_log | tail -n 25
	exit 1
}
cleanup() {
	local status=$?
	vm_end
	if [ -n "${AGATE_KEEP:-}" ]; then echo "kept: $VM_DIR"; else rm -rf "$VM_DIR"; fi
	exit "$status"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

[ -x "$durable" ] || { echo "$durable isn't built: make -C $AGATE_BUILD check-programs"; exit 1; }
[ -e "$VM_IMAGE" ] || { echo "$VM_IMAGE isn't built: images/build-image"; exit 1; }
vm_free_ports || exit 1
share="nfs://127.0.0.1/tank/share"
ports="nfsport=$VM_NFS_PORT&mountport=$VM_MOUNT_PORT&version=3"
url="$share?$ports"

# boot: power on, until agated serves.
boot() {
	vm_start || fail "no VM"
	vm_wait_for "^$VM_PROMPT" 240 || fail "no prompt"
	vm_wait_for_service 120 || fail "agated doesn't answer"
}

# shows PATTERN LINE: the command's output has it.
shows() {
	local out
	out=$(vm_run "$2" 120) || fail "$2"
	grep -qE -- "$1" <<<"$out" || fail "'$2' didn't show '$1' but: $out"
}

# make_tank: seven drives in one set, two for the log, a spare; the share.
make_tank() {
	shows "created 'tank'" 'pool create tank raidz1 d[0-6] log mirror l0 l1 spare s0'
	shows "shared '/tank/share'" 'share create -o rw=* -o squash=no_root_squash -o insecure=on /tank/share'
	shows 'ONLINE' 'pool status'
}

# load NAME SEED: journalled writes by four clients, in the background, until the server is gone.
load() {
	"$durable" "$url&autoreconnect=0&timeout=20000" run "$VM_DIR/journal-$1" "$1" 4 "$2" 600 >"$VM_DIR/load" 2>&1 &
	load=$!
}

# cut_power: of everything, under the load.
cut_power() {
	kill -0 $load 2>/dev/null || { cat "$VM_DIR/load"; fail "the load ended by itself"; }
	vm_power_cut
	wait $load
	local status=$?
	[ $status -eq 3 ] || { cat "$VM_DIR/load"; fail "the load ended with $status"; }
}

# check_load NAME [always]: nothing acknowledged is lost; the checker's last line is in $verdict.
check_load() {
	"$durable" "$url" check "$VM_DIR/journal-$1" "$1" 4 ${2:-} >"$VM_DIR/out" 2>&1 ||
		{ cat "$VM_DIR/out"; fail "acknowledged data is lost"; }
	verdict=$(tail -n 1 "$VM_DIR/out")
}
