//go:build !nocrosscheck && !js

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxgo"
)

// secondReaderArg is the first argument of the process that a cross-check runs in. Its limits follow, in bytes and as a
// duration, and the name of a built-in model where the model is not standard input.
const secondReaderArg = "--onnx-go-reads"

// How that process ends when it took too much. Go's runtime ends with 2 where it gets no memory.
const (
	secondReaderTime   = 8
	secondReaderMemory = 9
)

// secondReader has onnx-go read a model and compares, within limits. It is not to be called by people: ours reports
// whether the arguments ask for it.
func secondReader(args []string) (code int, ours bool) {
	if len(args) < 3 || args[0] != secondReaderArg {
		return 0, false
	}
	var may allowance
	var err error
	if may.Memory, err = strconv.ParseUint(args[1], 10, 62); err == nil {
		may.Time, err = time.ParseDuration(args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitUsage, true
	}
	limitMemory(may.Memory + may.Memory/4 + 64<<20) // what Go has given back counts, and the stacks of threads
	debug.SetMemoryLimit(int64(may.Memory))
	go watchMemory(may.Memory)
	m, err := secondModel(args[3:])
	var v secondReading
	if err == nil { // only from here on: a stream comes as slowly as it comes
		time.AfterFunc(may.Time, func() { os.Exit(secondReaderTime) })
		v.Report, err = onnxgo.Check(m)
	}
	if err != nil {
		v.Error = oneLine(err.Error())
	}
	if err := json.NewEncoder(os.Stdout).Encode(v); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitOutput, true
	}
	return exitOK, true
}

// secondModel reads the model once more.
func secondModel(args []string) (*onnxload.Model, error) {
	if len(args) > 0 {
		data, err := models.Open(args[0])
		if err != nil {
			return nil, err
		}
		return onnxload.Read(bytes.NewReader(data), int64(len(data)), onnxload.Options{})
	}
	if st, err := os.Stdin.Stat(); err == nil && st.Mode().IsRegular() {
		return onnxload.Read(os.Stdin, st.Size(), onnxload.Options{})
	}
	return onnxload.ReadStream(os.Stdin, onnxload.Options{})
}

// watchMemory ends the process once it has more than so many bytes.
func watchMemory(most uint64) {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for {
		metrics.Read(s)
		if s[0].Value.Uint64()-s[1].Value.Uint64() > most {
			os.Exit(secondReaderMemory)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
