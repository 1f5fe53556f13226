package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/memestimate/memestimate/devices"
	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/snapshot/compare"
)

// jsonForms are the forms of JSON that commands write: docs/schema/NAME.schema.json is made from the type.
var jsonForms = map[string]struct {
	form  string
	value any
}{
	"estimate":        {estimateForm, estimate.Report{}},
	"table":           {tableForm, tableJSON{}},
	"shapes":          {shapesForm, shapesJSON{}},
	"fit":             {fitForm, fitAnswer{}},
	"diff":            {diffForm, diff.Diff{}},
	"check":           {checkForm, checkResult{}},
	"compare":         {compareForm, compare.Comparison{}},
	"profile":         {profileForm, profile{}},
	"devices":         {devicesForm, deviceList{}},
	"run":             {runForm, chosenJSON{}},
	"trace":           {traceForm, traceResult{}},
	"slurm":           {slurmForm, slurmJSON{}},
	"where":           {whereForm, whereJSON{}},
	"models":          {modelsForm, modelList{}},
	"ops":             {opsForm, operatorList{}},
	"gpus":            {gpusForm, gpuList{}},
	"snapshot-show":   {showForm, showJSON{}},
	"snapshot-top":    {topForm, topList{}},
	"snapshot-track":  {trackForm, trackList{}},
	"snapshot-diff":   {snapshotDiffForm, snapshotDiff{}},
	"snapshot-replay": {replayForm, replayJSON{}},
	"snapshot-events": {eventsForm, eventList{}},
	"snapshot-export": {exportForm, exported{}},
	"error":           {errorForm, errorJSON{}},
}

// A schemaMaker makes the JSON Schema of a type: what encoding/json writes of it.
type schemaMaker struct {
	defs map[string]any
	form string
}

// written are the schemas of types that write themselves, and of those that may be several.
func (m *schemaMaker) written(t reflect.Type) any {
	switch t {
	case reflect.TypeFor[devices.Device]():
		return m.of(reflect.TypeFor[devices.DeviceJSON]())
	case reflect.TypeFor[estimate.Statistics]():
		return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "integer"}}
	case reflect.TypeFor[extent]():
		return map[string]any{"type": []string{"integer", "string", "null"}}
	}
	return nil
}

var marshaler = reflect.TypeFor[json.Marshaler]()

func (m *schemaMaker) of(t reflect.Type) any {
	if s := m.written(t); s != nil {
		return s
	}
	if t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		panic(fmt.Sprintf("%v writes itself: say in written what", t))
	}
	orNull := func(s map[string]any) any { return map[string]any{"anyOf": []any{s, map[string]any{"type": "null"}}} }
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Pointer:
		s := m.of(t.Elem()).(map[string]any)
		if s["anyOf"] != nil { // a list, which may be null already
			return s
		}
		return orNull(s)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return orNull(map[string]any{"type": "string", "contentEncoding": "base64"})
		}
		return orNull(map[string]any{"type": "array", "items": m.of(t.Elem())})
	case reflect.Array:
		return map[string]any{"type": "array", "items": m.of(t.Elem()), "minItems": t.Len(), "maxItems": t.Len()}
	case reflect.Map:
		return orNull(map[string]any{"type": "object", "additionalProperties": m.of(t.Elem())})
	case reflect.Struct:
		if t.Name() == "" {
			return m.object(t)
		}
		name := t.Name()
		if _, ok := m.defs[name]; !ok {
			m.defs[name] = true // it may hold itself
			m.defs[name] = m.object(t)
		}
		return map[string]any{"$ref": "#/$defs/" + name}
	}
	panic(fmt.Sprintf("%v may be anything: say in written what", t))
}

func (m *schemaMaker) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && name == "":
				add(f.Type)
				continue
			case !f.IsExported() || name == "-":
				continue
			case name == "":
				name = f.Name
			}
			if name == "schema" && m.form != "" {
				properties[name] = map[string]any{"const": m.form}
			} else {
				s := m.of(f.Type)
				if of, ok := s.(map[string]any); ok && f.Type.Kind() != reflect.Struct && strings.Contains(options, "omitempty") &&
					of["anyOf"] != nil {
					s = of["anyOf"].([]any)[0] // it is left out rather than null
				}
				properties[name] = s
			}
			if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
				required = append(required, name)
			}
		}
	}
	add(t)
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

// published returns the schema of a form as docs/schema has it.
func published(t *testing.T, name string) []byte {
	t.Helper()
	f := jsonForms[name]
	m := &schemaMaker{defs: map[string]any{}, form: f.form}
	root := m.object(reflect.TypeOf(f.value))
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = "https://raw.githubusercontent.com/memestimate/memestimate/main/docs/schema/" + name + ".schema.json"
	root["title"] = f.form
	root["$defs"] = m.defs
	if len(m.defs) == 0 {
		delete(root, "$defs")
	}
	var b bytes.Buffer
	if err := encodeJSON(&b, root); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The schemas that are shipped are those of the types, and each form is spelled as the others are.
func TestSchemasPublished(t *testing.T) {
	shipped := func(name string, data []byte) {
		t.Helper()
		path := filepath.Join("../../docs/schema", name+".schema.json")
		if *update {
			if err := os.WriteFile(path, data, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s is out of date: go test ./cmd/memestimate -run TestSchemasPublished -update (%v)", path, err)
		}
	}
	for name, f := range jsonForms {
		want := "memestimate-" + name + "/1"
		if name == "estimate" { // what the program is for has its own name
			want = "memestimate/1"
		}
		if f.form != want {
			t.Errorf("the form %s is named %s, want %s", name, f.form, want)
		}
		shipped(name, published(t, name))
	}
	data, err := budget.Schema(settingPatterns())
	if err != nil {
		t.Fatal(err)
	}
	shipped("memestimate", data)
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
	"where":           "where_test.go",
	"snapshot-export": "snapshot_list_test.go",
}

// What commands write is what the schemas say.
func TestOutputsAreValid(t *testing.T) {
	const snapshots = "../../snapshot/testdata/"
	dir := t.TempDir()
	config := filepath.Join(dir, "memestimate.yaml")
	write(t, config, "settings: {batch: [1, 8]}\nlimits: {device: 3GiB, fits: t4}\nmodels: [resnet18, "+
		"conv_example, x.onnx]\n")
	write(t, filepath.Join(dir, "x.onnx"), "no model")
	learnt := filepath.Join(dir, "profile.json")
	// stands in for a cluster
	write(t, filepath.Join(dir, "sinfo"), "#!/bin/sh\necho 'gpu40|idle|all*|8|64000|gpu,vram40|gpu:a100-40:4'\n")
	check(t, os.Chmod(filepath.Join(dir, "sinfo"), 0o777))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	held := map[string]bool{}
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
		{"shapes", []string{"shapes", "resnet18"}, 0},
		{"fit", []string{"fit", "resnet18", "--gpu", "t4"}, 0},
		{"diff", []string{"diff", "resnet18", "resnet50", "--batch", "1,8"}, 0},
		{"check", []string{"check", "-c", config}, 3},
		{"compare", []string{"compare", "resnet50", snapshots + "resnet50_seed.pickle.gz", "--batch", "1", "--optimizer",
			"sgdm", "--calibrate", learnt}, 0},
		{"slurm", []string{"slurm", "--need", "20GiB"}, 0},
		{"models", []string{"models"}, 0},
		{"ops", []string{"ops"}, 0},
		{"gpus", []string{"gpus"}, 0},
		{"snapshot-show", []string{"snapshot", "show", snapshots + "oom.pickle.gz"}, 0},
		{"snapshot-show", []string{"snapshot", "show", snapshots + "resnet50_seed.pickle.gz"}, 0},
		{"snapshot-top", []string{"snapshot", "top", snapshots + "resnet50_seed.pickle.gz"}, 0},
		{"snapshot-track", []string{"snapshot", "track", snapshots + "mem_track_0.pickle.gz",
			snapshots + "mem_track_1_model.pickle.gz"}, 0},
		{"snapshot-diff", []string{"snapshot", "diff", snapshots + "mem_track_0.pickle.gz",
			snapshots + "mem_track_1_model.pickle.gz"}, 0},
		{"snapshot-replay", []string{"snapshot", "replay", snapshots + "resnet50_seed.pickle.gz"}, 0},
		{"snapshot-events", []string{"snapshot", "events", snapshots + "oom.pickle.gz"}, 0},
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
		if err := keepOutput(tt.form, data); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(learnt)
	check(t, err)
	check(t, holds("profile", data))
	held["profile"] = true
	for name := range jsonForms {
		file := validElsewhere[name]
		if file == "" && !held[name] {
			t.Errorf("no output of the form %s is held against its schema", name)
		}
		if file != "" {
			text, err := os.ReadFile(file)
			if check(t, err); !bytes.Contains(text, []byte("valid "+name)) &&
				!bytes.Contains(text, []byte(`holds("`+name+`"`)) && !bytes.Contains(text, []byte(name+".schema.json")) {
				t.Errorf("%s holds nothing against the schema %s", file, name)
			}
		}
	}
}
