#!/usr/bin/env bash
# braid-bench t2: one swarm of a cell, as a table with --account, and as JSON, which always has the account.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

expect 0 'always with the account' "$BRAID_BENCH" t2 --help
expect 0 '+ dead' "$BRAID_BENCH" t2 --cell hom0 --iterations 1 --account
expect 0 '"cell":"hom0","system":"braid"' "$BRAID_BENCH" t2 --cell hom0 --iterations 1 --json
grep -qF '"seconds_per_iteration"' output || { echo "FAILED: no seconds_per_iteration"; failures=$((failures + 1)); }

finish
