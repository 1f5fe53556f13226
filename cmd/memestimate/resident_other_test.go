//go:build !linux

package main

import "os"

// mostResidentOf is 0: other systems count in other units, or not at all.
func mostResidentOf(*os.ProcessState) int64 { return 0 }
