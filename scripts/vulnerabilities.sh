#!/usr/bin/env bash
# Asks govulncheck whether the program calls anything that is known to be vulnerable. Where its database is out of reach it says so and goes on.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp)
trap 'rm -f "$out"' EXIT
if go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./... >"$out" 2>&1; then
	cat "$out"
elif grep -qE 'vuln\.go\.dev|dial tcp|no such host|Forbidden|connection refused|fetching vulnerabilities' "$out" && ! grep -q '^Vulnerability #' "$out"; then
	echo "the database of vulnerabilities is out of reach: not checked"
	sed -n 1,3p "$out"
else
	cat "$out"
	exit 1
fi
