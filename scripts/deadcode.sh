#!/usr/bin/env bash
# Fails where the command has functions that it never calls and deadcode.txt gives no reason for, or the reverse.
set -euo pipefail
cd "$(dirname "$0")/.."
module=$(go list -m)
found=$(go run golang.org/x/tools/cmd/deadcode@v0.38.0 -f '{{range .Funcs}}{{println $.Path .Name}}{{end}}' ./cmd/memestimate)
diff <(grep -vE '^(#|$)' scripts/deadcode.txt | LC_ALL=C sort) \
	<(sed "s#^$module/##" <<<"$found" | grep . | LC_ALL=C sort) ||
	{ echo "deadcode.sh: < has a reason and is called, > is never called" >&2; exit 1; }
