#!/bin/sh
# Each deliberate bug of this list is noticed: by the simulation within so many seeds, or by the unit test named. Without a
# bug neither finds anything (crashes; the unit tests themselves). An assertion that stops the program counts as noticed.
bad=0 count=0
try() { # name seeds [option [first]]
	./tests/sim/agate-sim $3 --seed "${4:-1}" --bug "$1" --expect-bug --count "$2" >tests/sim/bugs.out 2>&1
	case $? in
	77) exit 77 ;;
	0 | 134) echo "noticed: $1"; count=$((count + 1)) ;;
	*) echo "NOT NOTICED within $2 seeds: $1"; tail -n 3 tests/sim/bugs.out; bad=1 ;;
	esac
}
# One that never ends counts as noticed, too: without the bug it takes seconds.
unit() { # name program [argument]
	AGATE_BUGS=$1 timeout 120 "./tests/$2" $3 >tests/sim/bugs.out 2>&1
	case $? in
	0) echo "NOT NOTICED by $2: $1"; bad=1 ;;
	77) ;;
	126 | 127) echo "no such test: $2"; bad=1 ;;
	*) echo "noticed: $1 ($2)"; count=$((count + 1)) ;;
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
try pool-commit-one-txg 200 --operator
try pool-online-clean 60 --operator
try pool-resilver-skips 60 --operator
try pool-return-clean 60 --operator
unit fs-log-after-unlock unit/fs_replay_test
unit fs-txg-order-ignored unit/fs_replay_test
unit fs-rename-into-itself unit/fs_ops_test
unit fs-verf-not-stored unit/fs_ops_test
unit fs-suid-kept unit/fs_perm_test
unit fs-sticky-ignored unit/fs_perm_test
unit pool-config-number-reused unit/pool_label_test
unit pool-defer-forgets-later unit/pool_txg_test
unit pool-defer-without-end unit/pool_txg_test
unit pool-clear-while-late unit/pool_drive_test late
unit pool-read-unverified unit/pool_engine_test
unit pool-replay-floor-ignored unit/pool_model_test
unit pool-rewind-not-durable unit/pool_model_test
unit pool-notes-dropped unit/pool_model_test
unit fs-names-of-the-past nfs/snapshots_test
unit nfsd-stale-while-moving nfs/snapshots_test
unit nfsd-replies-of-the-past nfs/snapshots_test
unit nfsd-verf-of-the-past nfs/snapshots_test
unit raidz-sit-out-unscrubbed unit/raidz_test
unit kb-inject-writes unit/kb_inject_test
unit health-window-ignored unit/pool_health_test
unit health-sits-for-ever unit/pool_health_test
echo "$count bugs noticed"
exit $bad
