package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/memestimate/memestimate/gate"
	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/test/must"
)

// What a budget file may say and may not, line by line: YES or NO, the file.
const spellingTable = "testdata/spellings.txt"

// The parser of budget files takes these spellings and no others, and the JSON Schema that editors use no more than it.
func TestSchemaAndParserAgree(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../docs/schema/memestimate.schema.json")
	must.OK(t, err)
	data := must.Read(t, spellingTable)
	n, proposed := 0, 0
	for line := range strings.Lines(string(data)) {
		want, text, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || want == "#" {
			continue
		}
		n++
		text = strings.NewReplacer("; ", "\n", "⏎", "\n").Replace(text)
		if !strings.Contains(text, "models:") {
			text += "\nmodels: resnet18"
		}
		parsed := accepts(t, text)
		valid := validates(schema, text)
		if valid == nil {
			proposed++
		}
		if (parsed == nil) != (want == "YES") || valid == nil && parsed != nil {
			t.Errorf("%s\nwant %s\nparser: %v\nschema: %v", text, want, parsed, valid)
		}
	}
	if n < 120 || proposed < 50 {
		t.Errorf("%d spellings, %d of them in the schema, want 120 and 50", n, proposed)
	}
}

// accepts reads a budget file as check does, up to the models.
func accepts(t *testing.T, text string) error {
	path := filepath.Join(t.TempDir(), budget.Name)
	write(t, path, text)
	c := &gate.Check{Config: path, Read: readSmall, Cases: casesOf}
	f, err := c.ReadBudget()
	if err != nil {
		return err
	}
	_, err = c.FindModels(f)
	return err
}

// validates holds the same file against the schema, as an editor does.
func validates(schema *jsonschema.Schema, text string) error {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}
