package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/models"
)

//go:generate go test . -run TestSchemasPublished -update

// Names of the forms that JSON has here, each of one command. An estimate has the program's own. Fields may be added
// to a form; none changes its meaning. docs/schema has a JSON Schema of each.
const (
	estimateForm = estimate.Schema
	diffForm     = diff.Schema
	tableForm    = "memestimate-table/1"
	fitForm      = "memestimate-fit/1"
	compareForm  = "memestimate-compare/1"
	devicesForm  = "memestimate-devices/1"
	runForm      = "memestimate-run/1"
	traceForm    = "memestimate-trace/1"
	modelsForm   = "memestimate-models/1"
	gpusForm     = "memestimate-gpus/1"
	slurmForm    = "memestimate-slurm/1"
	whereForm    = "memestimate-where/1"
	showForm     = "memestimate-snapshot-show/1"
	explainForm  = "memestimate-explain/1"
	errorForm    = "memestimate-error/1"
)

// tableJSON is the answer of table: the layers of an estimate.
type tableJSON struct {
	Schema string         `json:"schema"`
	Layers []module.Layer `json:"layers"`
}

// modelList is the answer of models.
type modelList struct {
	Schema string         `json:"schema"`
	Models []models.Model `json:"models"`
}

// gpuList is the answer of gpus.
type gpuList struct {
	Schema string     `json:"schema"`
	GPUs   []knownGPU `json:"gpus"`
}

type knownGPU struct {
	ID              string `json:"id"`
	Name            string `json:"name"`
	Memory          int64  `json:"memory_bytes"`
	Capability      string `json:"compute_capability"`
	Multiprocessors int    `json:"multiprocessors"`
	Measured        bool   `json:"measured"`
	Basis           string `json:"basis"` // "measured", "judged on published runs" or "derived"
}

// chosenJSON is what run chose, where it only says so.
type chosenJSON struct {
	Schema      string            `json:"schema"`
	Devices     []chosenPart      `json:"devices"`
	Environment map[string]string `json:"environment"`
}

type chosenPart struct {
	UUID  string `json:"uuid"`
	Index int    `json:"index"`
	Bytes uint64 `json:"bytes"`
}

// errorJSON is an error, on stderr, where the answer would be JSON.
type errorJSON struct {
	Schema string `json:"schema"`
	Code   int    `json:"code"` // the exit code
	Error  string `json:"error"`
	Hint   string `json:"hint,omitempty"`
}

// wantsJSON reports whether a command line asks for JSON. It is read before it is known to be right, since what is
// wrong with it is said in that form too.
func wantsJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	for i, a := range args {
		for _, flag := range []string{"--format", "-f"} {
			if a == flag && i+1 < len(args) && args[i+1] == "json" {
				return true
			}
			if rest, ok := strings.CutPrefix(a, flag); ok && (rest == "=json" || rest == "json" && flag == "-f") {
				return true
			}
		}
	}
	return false
}

// tellJSON is tell for a reader that is a program.
func tellJSON(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	code := codeOf(err)
	if err.Error() == (&exitError{code: code}).Error() { // all is said
		return code
	}
	data, failed := jsonv1.Marshal(errorJSON{errorForm, code, oneLine(err.Error()), oneLine(hintOf(err))})
	if failed != nil {
		return tell(w, err)
	}
	fmt.Fprintln(w, asciiJSON(string(data)))
	return code
}
