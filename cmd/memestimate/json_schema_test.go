// Forms of clusters are not in the page.

//go:build !js

package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	infer "github.com/google/jsonschema-go/jsonschema"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/memestimate/memestimate/devices"
	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/gate"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/snapshot/compare"
	"github.com/memestimate/memestimate/test/must"
)

// jsonForms are the forms of JSON that commands write: docs/schema/NAME.schema.json is made from the type.
var jsonForms = map[string]struct {
	form  string
	value any
}{
	"estimate":      {estimateForm, estimate.Report{}},
	"table":         {tableForm, tableJSON{}},
	"fit":           {fitForm, estimate.Fitting{}},
	"diff":          {diffForm, diff.Diff{}},
	"check":         {gate.Schema, gate.Result{}},
	"compare":       {compareForm, compare.Comparison{}},
	"devices":       {devicesForm, deviceList{}},
	"run":           {runForm, chosenJSON{}},
	"trace":         {traceForm, traceResult{}},
	"slurm":         {slurmForm, slurmJSON{}},
	"where":         {whereForm, whereJSON{}},
	"models":        {modelsForm, modelList{}},
	"gpus":          {gpusForm, gpuList{}},
	"snapshot-show": {showForm, showJSON{}},
	"explain":       {explainForm, explainJSON{}},
	"error":         {errorForm, errorJSON{}},
}

// otherwise are the schemas of types that write themselves, and of those that may be several.
var otherwise = map[reflect.Type]*infer.Schema{
	reflect.TypeFor[time.Duration](): {Type: "number"},
	reflect.TypeFor[[]byte]():        {Types: []string{"null", "string"}, ContentEncoding: "base64"},
}

// published returns the schema of a form as docs/schema has it.
func published(t *testing.T, name string) []byte {
	t.Helper()
	f := jsonForms[name]
	device, err := infer.For[devices.DeviceJSON](&infer.ForOptions{TypeSchemas: otherwise})
	must.OK(t, err)
	types := maps.Clone(otherwise)
	types[reflect.TypeFor[devices.Device]()] = device
	s, err := infer.ForType(reflect.TypeOf(f.value), &infer.ForOptions{TypeSchemas: types})
	must.OK(t, err)
	extensible(s)
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", f.form
	s.ID = "https://raw.githubusercontent.com/memestimate/memestimate/main/docs/schema/" + name + ".schema.json"
	if s.Properties["schema"] != nil {
		form := any(f.form)
		s.Properties["schema"] = &infer.Schema{Const: &form}
	}
	data, err := json.MarshalIndent(s, "", "  ")
	must.OK(t, err)
	return append(data, '\n')
}

// extensible allows objects further fields: a form may get more.
func extensible(s *infer.Schema) {
	switch {
	case s == nil:
		return
	case s.Properties != nil:
		s.AdditionalProperties = nil
	}
	for _, p := range s.Properties {
		extensible(p)
	}
	extensible(s.Items)
	extensible(s.AdditionalProperties)
}

// The schemas that are shipped are those of the types, and each form is spelled as the others are.
func TestSchemasPublished(t *testing.T) {
	for name, f := range jsonForms {
		want := "memestimate-" + name + "/1"
		if name == "estimate" { // what the program is for has its own name
			want = "memestimate/1"
		}
		if f.form != want {
			t.Errorf("the form %s is named %s, want %s", name, f.form, want)
		}
		data, path := published(t, name), filepath.Join("../../docs/schema", name+".schema.json")
		if *update {
			must.OK(t, os.WriteFile(path, data, 0o666))
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s is out of date: go generate ./cmd/memestimate (%v)", path, err)
		}
	}
}

// holds holds JSON against a schema of docs/schema.
func holds(name string, data []byte) error {
	s, err := jsonschema.NewCompiler().Compile("../../docs/schema/" + name + ".schema.json")
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// keepOutput leaves an output in the folder JSON_OUTPUTS, for another validator.
func keepOutput(name string, data []byte) error {
	dir := os.Getenv("JSON_OUTPUTS")
	if dir == "" {
		return nil
	}
	f, err := os.CreateTemp(dir, name+".*.json")
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Close()
}

// valid is a command of scripts: what the program wrote to stdout is what docs/schema/NAME.schema.json says.
func valid(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: valid NAME FILE")
	}
	data := []byte(ts.ReadFile(args[1]))
	ts.Check(holds(args[0], data))
	ts.Check(keepOutput(args[0], data))
}

// validElsewhere are the forms that other tests hold against their schemas, since they need a GPU, a server, or an
// interpreter.
var validElsewhere = map[string]string{
	"devices": "testdata/gpu/see.txtar", "run": "testdata/gpu/run.txtar", "trace": "testdata/gpu/model.txtar",
	"where": "where_test.go",
}

// What commands write is what the schemas say.
func TestOutputsAreValid(t *testing.T) {
	const snapshots = "../../snapshot/testdata/"
	dir := t.TempDir()
	config := filepath.Join(dir, "memestimate.yaml")
	write(t, config, "settings: {batch: [1, 8]}\nlimits: {device: 3GiB, fits: t4}\nmodels: [resnet18, "+
		"conv_example, x.onnx]\n")
	write(t, filepath.Join(dir, "x.onnx"), "no model")
	// stands in for a cluster
	write(t, filepath.Join(dir, "sinfo"), "#!/bin/sh\necho 'gpu40|idle|all*|8|64000|gpu,vram40|gpu:a100-40:4'\n")
	must.OK(t, os.Chmod(filepath.Join(dir, "sinfo"), 0o777))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	held := map[string]bool{}
	message := filepath.Join(t.TempDir(), "message.txt")
	write(t, message, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "+
		"79.25 GiB of which 1.10 GiB is free. Process 4242 has 78.10 GiB memory in use. Of the allocated memory 70.00 GiB is "+
		"allocated by PyTorch, and 6.50 GiB is reserved by PyTorch but unallocated.")
	for _, tt := range []struct {
		form string
		args []string
		code int
	}{
		{"estimate", []string{"resnet18", "--batch", "8"}, 0},
		{"estimate", []string{"bert_base", "--batch", "2", "--mode", "infer"}, 0},
		{"estimate", []string{"resnet18", "--batch", "8", "--gpu", "t4", "--budget", "1GiB", "--what-if", "--stats"}, 1},
		{"estimate", []string{"resnet18", "--batch", "800", "--memory-limit", "1GiB"}, 1},
		{"table", []string{"table", "resnet18", "--batch", "8"}, 0},
		{"fit", []string{"fit", "resnet18", "--gpu", "t4"}, 0},
		{"diff", []string{"diff", "resnet18", "resnet50", "--batch", "1,8"}, 0},
		{"check", []string{"check", "-c", config}, 3},
		{"compare", []string{"compare", "resnet50", snapshots + "resnet50_seed.pickle.gz", "--batch", "1", "--optimizer",
			"sgdm"}, 0},
		{"slurm", []string{"slurm", "--need", "20GiB"}, 0},
		{"models", []string{"models"}, 0},
		{"gpus", []string{"gpus"}, 0},
		{"snapshot-show", []string{"snapshot", "show", snapshots + "oom.pickle.gz"}, 0},
		{"snapshot-show", []string{"snapshot", "show", snapshots + "resnet50_seed.pickle.gz"}, 0},
		{"explain", []string{"explain", message}, 0},
		{"error", []string{"nosuch.onnx"}, 3},
		{"error", []string{"resnet18", "--bacth", "8"}, 2},
		{"error", []string{"resnet18"}, 2},
		{"error", []string{"check", "-c", "nosuch.yaml"}, 3},
	} {
		var out, errs bytes.Buffer
		e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
		code := run(t.Context(), e, append(tt.args, "--format", "json"))
		data := out.Bytes()
		if tt.form == "error" {
			data = errs.Bytes()
			if out.Len() > 0 {
				t.Errorf("%v: an answer as well", tt.args)
			}
		}
		if code != tt.code {
			t.Errorf("%v: exit code %d, want %d: %s", tt.args, code, tt.code, errs.String())
			continue
		}
		if err := holds(tt.form, data); err != nil {
			t.Errorf("%v: %v\n%.2000s", tt.args, err, data)
		}
		held[tt.form] = true
		must.OK(t, keepOutput(tt.form, data))
	}
	for name := range jsonForms {
		file := validElsewhere[name]
		if file == "" && !held[name] {
			t.Errorf("no output of the form %s is held against its schema", name)
		}
		if file != "" {
			text, err := os.ReadFile(file)
			if must.OK(t, err); !bytes.Contains(text, []byte("valid "+name)) &&
				!bytes.Contains(text, []byte(`holds("`+name+`"`)) && !bytes.Contains(text, []byte(name+".schema.json")) {
				t.Errorf("%s holds nothing against the schema %s", file, name)
			}
		}
	}
}
