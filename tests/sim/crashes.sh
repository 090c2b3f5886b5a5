#!/bin/sh
# At least 520 power cuts of the whole appliance: nothing lost, nothing wrong; and some seeds twice, for the same trace.
./tests/sim/agate-sim --seeds 9001..9010 --twice && exec ./tests/sim/agate-sim --crashes "${AGATE_SIM_CRASHES:-520}"
