#!/bin/bash
# nfs-cost.sh [SECONDS [LOAD ...]]: what the engine pays for one NFS operation, with nothing but memory below it.
#
# Starts tests/serve on image files in /dev/shm (6+1 parity, mirrored log, lz4, XXH3) and runs bench/nfsload against it,
# one load after the other; each line ends with the engine's processor time per operation and, where the processor's
# counters may be read (not in most virtual machines), its instructions per operation, the kernel's share included.
# Build without --enable-debug, for example: ../configure CFLAGS="-O2 -g". AGATE_BUILD: the build directory (default:
# build/ beside bench/). CLIENTS: clients with one call under way each (default 16).
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
export AGATE_BUILD=${AGATE_BUILD:-$top/build}
seconds=${1:-5}
shift || true
[ $# -gt 0 ] || set -- getattr read4k read128k write4k write64k unstable64k create mixed
load=$AGATE_BUILD/bench/nfsload
[ -x "$load" ] || { echo "nfs-cost: $load isn't built" >&2; exit 2; }

dir=$(mktemp -d /dev/shm/agate-cost-XXXXXX)
serve=
finish() {
	[ -z "$serve" ] || { kill "$serve" 2>/dev/null; wait "$serve" 2>/dev/null; } || true
	rm -rf "$dir"
}
trap finish EXIT
AGATE_DRIVE_SIZE=${AGATE_DRIVE_SIZE:-1G} "$top/tests/serve" "$dir/pool" >"$dir/facts" &
serve=$!
for _ in $(seq 600); do
	grep -q AGATE_SOCKET "$dir/facts" && break
	kill -0 "$serve" 2>/dev/null || exit 1
	sleep 0.1
done
fact() { sed -n "s/^$1=//p" "$dir/facts"; }

url="nfs://127.0.0.1$(fact EXPORT)?nfsport=$(fact NFS_PORT)&mountport=$(fact MOUNT_PORT)&version=3"
for name; do
	"$load" "$url" "$name" "${CLIENTS:-16}" "$seconds" "$(fact PID)"
done
