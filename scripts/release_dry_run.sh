#!/usr/bin/env bash
# Makes all of a release but what publishes or signs it, twice, and compares the bytes. It needs a C compiler for each processor of Linux,
# which it installs where apt-get can.
set -euo pipefail
cd "$(dirname "$0")/.."
goreleaser=v2.16.0

if ! command -v aarch64-linux-gnu-gcc >/dev/null && command -v apt-get >/dev/null; then
	as=(); [ "$(id -u)" = 0 ] || as=(sudo)
	"${as[@]}" apt-get update -qq
	"${as[@]}" apt-get install -y -qq --no-install-recommends gcc libc6-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross >/dev/null
fi
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
if command -v goreleaser >/dev/null; then
	ln -s "$(command -v goreleaser)" "$tools/goreleaser"
else
	GOBIN="$tools" CGO_ENABLED=0 go install "github.com/goreleaser/goreleaser/v2@$goreleaser"
fi

"$tools/goreleaser" check
skip=sign,before
command -v syft >/dev/null || { skip+=,sbom; echo "there is no syft: without lists of what is inside"; }
scripts/release_texts.sh .release
for round in one two; do
	# The version of a snapshot has the commit's, and no other, so that both rounds make the same.
	"$tools/goreleaser" release --snapshot --clean --skip="$skip"
	version=$(python3 -c 'import json; print(json.load(open("dist/metadata.json"))["version"])')
	scripts/release_wheels.sh "$(echo "$version" | sed 's/-.*/.dev0/')"
	(cd dist && find . \( -name '*.tar.gz' -o -name '*.zip' -o -name '*.deb' -o -name '*.rpm' -o -name '*.whl' \) -exec sha256sum {} + | sort -k2) >"$tools/$round"
done
diff "$tools/one" "$tools/two" || { echo "two builds of one commit differ" >&2; exit 1; }
[ "$(wc -l <"$tools/one")" -ge 15 ] || { echo "packages are missing" >&2; cat "$tools/one" >&2; exit 1; }
cat "$tools/one"
