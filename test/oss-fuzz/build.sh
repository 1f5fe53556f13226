#!/bin/bash -eu
# Builds every fuzz target of the module for OSS-Fuzz, as folder_target.
module=github.com/memestimate/memestimate
go install github.com/AdamKorcz/go-118-fuzz-build@latest
go get github.com/AdamKorcz/go-118-fuzz-build/testing
grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's|^\./||; s|:func | |' | while read -r file target; do
	folder=$(dirname "$file")
	compile_native_go_fuzzer "$module/$folder" "$target" "$(echo "$folder" | tr / _)_$target"
done
