#!/usr/bin/env bash
# Writes what a release has beside the program into a folder: completions for shells.
#
#	scripts/release_texts.sh FOLDER
set -euo pipefail
folder="${1:?usage: scripts/release_texts.sh FOLDER}"
cd "$(dirname "$0")/.."
rm -rf "$folder"
mkdir -p "$folder/completions"
program=$(mktemp -d)
trap 'rm -rf "$program"' EXIT
CGO_ENABLED=0 go build -trimpath -o "$program/memestimate" ./cmd/memestimate
for shell in bash zsh fish powershell; do
	"$program/memestimate" completion "$shell" >"$folder/completions/memestimate.$shell"
done
