#!/usr/bin/env bash
# Makes all of a release but what publishes or signs it, twice: the second time in another folder and with an empty cache, so that
# nothing of the first is in it. The bytes must be the same. It needs a C compiler for each processor of Linux, which it installs where
# apt-get can.
set -euo pipefail
cd "$(dirname "$0")/.."
goreleaser=v2.16.0
git diff --quiet HEAD || { echo "release_dry_run.sh: there are changes that are not committed, and a release is of a commit" >&2; exit 1; }

if ! command -v aarch64-linux-gnu-gcc >/dev/null && command -v apt-get >/dev/null; then
	as=(); [ "$(id -u)" = 0 ] || as=(sudo)
	"${as[@]}" apt-get update -qq
	"${as[@]}" apt-get install -y -qq --no-install-recommends gcc libc6-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross >/dev/null
fi
tools=$(mktemp -d)
trap 'git worktree remove --force "$tools/again" 2>/dev/null || true; chmod -R u+w "$tools"; rm -rf "$tools"' EXIT
if command -v goreleaser >/dev/null; then
	ln -s "$(command -v goreleaser)" "$tools/goreleaser"
else
	GOBIN="$tools" CGO_ENABLED=0 go install "github.com/goreleaser/goreleaser/v2@$goreleaser"
fi

"$tools/goreleaser" check
skip=sign,before
command -v syft >/dev/null || { skip+=,sbom; echo "there is no syft: without lists of what is inside"; }

# build makes the packages of the folder that it is run in, and writes their sums.
build() {
	scripts/release_texts.sh .release
	"$tools/goreleaser" release --snapshot --clean --skip="$skip"
	version=$(python3 -c 'import json; print(json.load(open("dist/metadata.json"))["version"])')
	scripts/release_wheels.sh "${version%%-*}.dev0"
	(cd dist && find . \( -name '*.tar.gz' -o -name '*.zip' -o -name '*.deb' -o -name '*.rpm' -o -name '*.whl' -o -name '*.rb' -o -name '*.pkgbuild' \) \
		-exec sha256sum {} + | sort -k2) >"$1"
}
build "$tools/one"
git worktree add --quiet --detach "$tools/again"
(cd "$tools/again" && GOCACHE="$tools/cache" build "$tools/two")
diff "$tools/one" "$tools/two" || { echo "two builds of one commit differ" >&2; exit 1; }
for kind in .tar.gz:4 .zip:1 .deb:2 .rpm:2 .whl:6 .rb:1 .pkgbuild:1; do
	n=$(grep -cF -- "${kind%:*}" "$tools/one" || true)
	[ "$n" = "${kind#*:}" ] || { echo "$n packages are ${kind%:*}, want ${kind#*:}" >&2; cat "$tools/one" >&2; exit 1; }
done
(cd dist && sha256sum --check --quiet SHA256SUMS)

# Signing as the release does, but with a key of this run: a certificate without a key is for workflows alone. The signature must
# hold, and must not hold for other sums.
if command -v cosign >/dev/null; then
	export COSIGN_PASSWORD=
	cp dist/SHA256SUMS "$tools/sums"
	(
		cd "$tools"
		cosign generate-key-pair
		cosign trusted-root create --out root.json
		cosign sign-blob --key cosign.key --use-signing-config=false --tlog-upload=false --new-bundle-format \
			--bundle sums.sigstore.json --yes sums
		verify=(cosign verify-blob --key cosign.pub --insecure-ignore-tlog --trusted-root root.json --new-bundle-format
			--bundle sums.sigstore.json sums)
		"${verify[@]}"
		echo "of another file" >>sums
		if "${verify[@]}" 2>/dev/null; then
			echo "the signature holds for other sums" >&2
			exit 1
		fi
	)
else
	echo "there is no cosign: nothing is signed"
fi
cat "$tools/one"
