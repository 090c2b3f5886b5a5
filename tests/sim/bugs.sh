#!/bin/sh
# Each deliberate bug of this list is noticed by the simulation within so many seeds; without one nothing is.
# An assertion that stops the program counts as noticed.
bad=0
try() { # name seeds [option [first]]
	./tests/sim/agate-sim $3 --seed "${4:-1}" --bug "$1" --expect-bug --count "$2" >tests/sim/bugs.out 2>&1
	case $? in
	77) exit 77 ;;
	0 | 134) echo "noticed: $1" ;;
	*) echo "NOT NOTICED within $2 seeds: $1"; tail -n 3 tests/sim/bugs.out; bad=1 ;;
	esac
}
try fs-ack-before-commit 40
try fs-always-as-standard 40
try fs-commit-skipped 20
try fs-log-object-missing 40
try fs-replay-new-generation 20
try fs-unstable-says-stable 20
try ilog-ack-early 60
try ilog-skip-fua 40
try ilog-trim-by-position 40
try nfsd-no-duplicate-cache 20
try nfsd-replies-not-restored 40
try nfsd-verf-constant 20
try nfsd-write-short 20
try pool-alloc-unrecorded 20
try pool-change-syncing-buffer 80
try pool-early-reuse 20
try pool-free-unrecorded 20
try pool-log-defer-drops 40
try pool-skip-flush 20
try pool-uber-before-flush 20
try pool-add-forgotten 60 --operator
try pool-attach-clean 60 --operator
try pool-commit-one-txg 60 --operator 22
try pool-log-gap-replayed 60 --operator
try pool-online-clean 60 --operator
try pool-resilver-skips 60 --operator
try pool-return-clean 60 --operator
exit $bad
