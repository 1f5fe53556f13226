#!/usr/bin/env bash
# Builds the archives of a release into dist, with checksums:
#
#	scripts/release.sh v1.2.3 [TARGET...]
#
# An archive has what its README links to and has one run. Live GPUs need cgo: linux archives are built with a C compiler for their processor (CC_linux_arm64 names another one than
# aarch64-linux-gnu-gcc). With NOGPU=1 a missing compiler is no error, and the archive says so in its name. The same source and
# the same compilers give the same archives.
set -euo pipefail
cd "$(dirname "$0")/.."

version="${1:?usage: scripts/release.sh VERSION [TARGET...]}"
shift
case "$version" in
v[0-9]*.[0-9]*.[0-9]*) ;;
*) echo "release.sh: $version is not a version such as v1.2.3" >&2; exit 2 ;;
esac
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64)
texts=(LICENSE README.md CHANGELOG.md docs models/NOTICE scripts/strip_weights.py)
export CGO_CFLAGS="${CGO_CFLAGS:--g -O2 -Wno-deprecated-declarations}"
when="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"

# compiler TARGET prints the C compiler for a target, nothing where there is none.
compiler() {
	case "$1" in
	linux/"$(go env GOHOSTARCH)") [ "$(go env GOHOSTOS)" = linux ] && command -v "${CC:-gcc}" || true ;;
	linux/arm64) command -v "${CC_linux_arm64:-aarch64-linux-gnu-gcc}" || true ;;
	linux/amd64) command -v "${CC_linux_amd64:-x86_64-linux-gnu-gcc}" || true ;;
	esac
}

# What is missing is said before anything is built.
for target in "${targets[@]}"; do
	if [ "${target%/*}" = linux ] && [ -z "$(compiler "$target")" ] && [ "${NOGPU:-}" != 1 ]; then
		package="gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
		[ "$target" = linux/arm64 ] || package="gcc-x86-64-linux-gnu libc6-dev-amd64-cross"
		echo "release.sh: no C compiler for $target (Debian has it in $package); NOGPU=1 builds it without live GPUs" >&2
		exit 1
	fi
done

rm -rf dist
mkdir -p dist/staging
trap 'rm -rf dist/staging' EXIT
CGO_ENABLED=0 go build -trimpath -o dist/staging/host ./cmd/memestimate
mkdir -p dist/staging/completions
for shell in bash zsh fish powershell; do
	dist/staging/host completion "$shell" >"dist/staging/completions/memestimate.$shell"
done
dist/staging/host man >dist/staging/memestimate.1

for target in "${targets[@]}"; do
	os="${target%/*}" arch="${target#*/}" suffix="" program=memestimate cgo=0 cc=""
	if [ "$os" = linux ]; then
		cc=$(compiler "$target")
		if [ -n "$cc" ]; then
			cgo=1
		else
			suffix=-nogpu
			echo "release.sh: no C compiler for $target: without live GPUs" >&2
		fi
	fi
	[ "$os" != windows ] || program=memestimate.exe
	name="memestimate-$version-$os-$arch$suffix"
	mkdir -p "dist/staging/$name"
	CGO_ENABLED=$cgo CC="$cc" GOOS="$os" GOARCH="$arch" go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.release=$version" -o "dist/staging/$name/$program" ./cmd/memestimate
	cp -r dist/staging/memestimate.1 dist/staging/completions "dist/staging/$name/"
	tar -c "${texts[@]}" | tar -x -C "dist/staging/$name"
	if [ "$os" = windows ] && command -v zip >/dev/null; then
		find "dist/staging/$name" -exec touch -d "$when" {} +
		(cd dist/staging && find "$name" -type f | sort | TZ=UTC zip -q -X "../$name.zip" -@)
	else
		tar --sort=name --mtime="$when" --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w -C dist/staging -cf - "$name" | gzip -n9 >"dist/$name.tar.gz"
	fi
	echo "$name"
done
(cd dist && sha256sum memestimate-* >SHA256SUMS)
