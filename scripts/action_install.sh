#!/usr/bin/env bash
# Puts the program where action.yml runs it: the one that was released from the commit or tag that a workflow pins, once its provenance
# is proved. Where there is none, as for a commit between releases, the output source says that the action must build it.
#
# From the environment: VERSION (a release, "source" to build, or nothing), ACTION_REF and ACTION_REPOSITORY (what the workflow
# pins), RUNNER_OS, RUNNER_ARCH, RUNNER_TEMP, GITHUB_OUTPUT, and GH_TOKEN, with which gh asks for the attestation.
set -euo pipefail

home="$RUNNER_TEMP/memestimate-action"
mkdir -p "$home"
sum=$(sha256sum "$(dirname "$0")/../go.sum" 2>/dev/null || shasum -a 256 "$(dirname "$0")/../go.sum")
{
	echo "home=$home"
	echo "sum=${sum%% *}"
} >>"$GITHUB_OUTPUT"

from_source() {
	echo "memestimate: $1: it is built from source"
	echo "source=true" >>"$GITHUB_OUTPUT"
	exit 0
}

repository="${ACTION_REPOSITORY:-memestimate/memestimate}"
[[ "$repository" =~ ^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$ ]] || { echo "memestimate: ACTION_REPOSITORY is not OWNER/NAME" >&2; exit 3; }
release='^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$'
tag="${VERSION:-}"
if [ "$tag" = source ]; then
	from_source "version: source"
elif [ -n "$tag" ]; then
	[[ "$tag" =~ $release ]] || { echo "memestimate: version $tag is not a release such as v1.2.3" >&2; exit 2; }
elif [[ "${ACTION_REF:-}" =~ $release ]]; then
	tag="$ACTION_REF"
elif [[ "${ACTION_REF:-}" =~ ^[0-9a-f]{40}$ ]]; then
	# A tag is listed with the object that it is, and one with a message once more with the commit.
	tag=$(git ls-remote --tags "https://github.com/$repository" 'v*' | awk -v sha="$ACTION_REF" '$1 == sha { sub("refs/tags/", "", $2); sub("\\^\\{\\}$", "", $2); print $2; exit }')
	[[ "$tag" =~ $release ]] || from_source "no release is of the commit $ACTION_REF"
else
	from_source "no release is pinned"
fi

case "$RUNNER_OS/$RUNNER_ARCH" in
Linux/X64) name=linux_amd64.tar.gz ;;
Linux/ARM64) name=linux_arm64.tar.gz ;;
macOS/X64) name=darwin_amd64.tar.gz ;;
macOS/ARM64) name=darwin_arm64.tar.gz ;;
Windows/X64) name=windows_amd64.zip ;;
*) from_source "no release is for $RUNNER_OS on $RUNNER_ARCH" ;;
esac
name="memestimate_${tag#v}_$name"
# The attestation must be of the commit that is pinned; of a tag, of the one that it is at: a tag can be moved.
commit="${ACTION_REF:-}"
if ! [[ "$commit" =~ ^[0-9a-f]{40}$ ]] || [ -n "${VERSION:-}" ]; then
	commit=$(git ls-remote --tags "https://github.com/$repository" "refs/tags/$tag" "refs/tags/$tag^{}" | awk 'END { print $1 }')
fi
[[ "$commit" =~ ^[0-9a-f]{40}$ ]] || { echo "memestimate: there is no release $tag of $repository" >&2; exit 3; }
curl --fail --silent --show-error --location --proto '=https' --retry 3 --output "$home/$name" "https://github.com/$repository/releases/download/$tag/$name"
gh attestation verify "$home/$name" --repo "$repository" --signer-workflow "$repository/.github/workflows/release.yml" --source-ref "refs/tags/$tag" --source-digest "$commit"
case "$name" in
*.zip) unzip -qo "$home/$name" -d "$home" ;;
*) tar -xzf "$home/$name" -C "$home" ;;
esac
echo "source=false" >>"$GITHUB_OUTPUT"
