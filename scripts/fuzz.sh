#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other, each for as long as the argument says: 20s, 10m. Making what
# is new smaller is cut short: Go would spend a minute on each input, and all of a short run on the first.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:?how long each target runs, as in 20s}

failed=0
while IFS=: read -r file target; do
	printf '== %s %s\n' "$(dirname "$file")" "$target"
	go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 20x || failed=1
done < <(grep -rhoE --include='*_test.go' --with-filename '^func Fuzz[A-Za-z0-9_]+' . |
	sed 's|^\./||; s|:func |:|' | sort)
exit "$failed"
