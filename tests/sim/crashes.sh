#!/bin/bash
# The whole appliance, simulated: first some seeds twice, for the same trace; the seeds of bugs there were (file seeds);
# then new ones with each commit, in two processes: drives that fail, power cuts, an operator, snapshots, load.
# AGATE_SIM_SEEDS: how many. AGATE_SIM_BASE: the first one.
sim=./tests/sim/agate-sim
count=${AGATE_SIM_SEEDS:-150}
base=${AGATE_SIM_BASE:-}
here=${srcdir:-$(sed -n 's/^srcdir = //p' Makefile 2>/dev/null)}
here=${here:-.}
if [ -z "$base" ]; then
	commit=$(git -C "$here" rev-parse --short=7 HEAD 2>/dev/null) || commit=1
	base=$((0x$commit))
fi
echo "seeds $base to $((base + count - 1)), and those of $here/tests/sim/seeds"

# half FIRST LAST
half() { $sim --mix --seeds "$1..$2"; }

named() {
	local bad=0 options
	while read -r options; do
		options=${options%%#*}
		[ -n "${options// /}" ] || continue
		# shellcheck disable=SC2086
		$sim $options >tests/sim/named.out || { cat tests/sim/named.out; bad=1; }
	done <"$here/tests/sim/seeds"
	rm -f tests/sim/named.out
	return $bad
}

$sim --mix --seeds 9001..9010 --twice || exit 1
half "$base" $((base + count / 2 - 1)) >tests/sim/half.out 2>tests/sim/half.err &
other=$!
bad=0
named || bad=1
half $((base + count / 2)) $((base + count - 1)) || bad=1
wait $other || { bad=1; tail -n 5 tests/sim/half.err; }
cat tests/sim/half.out
rm -f tests/sim/half.out tests/sim/half.err
exit $bad
