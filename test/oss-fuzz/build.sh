#!/bin/bash -eu
# Builds every fuzz target of the module for OSS-Fuzz into $OUT, as folder_target, with the files that they read.
go run ./test/oss-fuzz
