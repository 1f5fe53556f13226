//go:build !nocrosscheck && !js && !linux

package main

// memoryIsLimited says that the system does not refuse memory to a process by a limit that Go's heap keeps to.
const memoryIsLimited = false

func limitMemory(uint64) {}
