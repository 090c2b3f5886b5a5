#!/bin/sh
# Power cuts of the whole appliance: nothing lost, nothing wrong. First some seeds twice, for the same trace; then at
# least 520 cuts; then 120 with drives that fail, lie, rot, hang or are pulled out;
# then with somebody who works on the drives.
./tests/sim/agate-sim --seeds 9001..9010 --twice || exit 1
./tests/sim/agate-sim --crashes 520 || exit 1
./tests/sim/agate-sim --faults --seed 6000 --crashes 120 || exit 1
# Named seeds of bugs that an operator met: what had no record was acknowledged too early; replay over a gap.
./tests/sim/agate-sim --operator --seed 22 || exit 1
./tests/sim/agate-sim --operator --seed 37 || exit 1
exec ./tests/sim/agate-sim --operator --seeds 1..20
