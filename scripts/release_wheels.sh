#!/usr/bin/env bash
# Builds the wheels of a release into dist/wheels from the programs that goreleaser left in dist.
#
#	scripts/release_wheels.sh VERSION
set -euo pipefail
version="${1:?usage: scripts/release_wheels.sh VERSION}"
cd "$(dirname "$0")/.."
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
programs=()
for target in linux_amd64 linux_arm64 darwin_amd64 darwin_arm64 windows_amd64; do
	found=(dist/*_"$target"_*/memestimate*)
	[ -f "${found[0]}" ] || { echo "release_wheels.sh: dist has no program for $target" >&2; exit 1; }
	programs+=("$target=${found[0]}")
done
rm -rf dist/wheels
python3 scripts/build_wheels.py "$version" dist/wheels "${programs[@]}"
