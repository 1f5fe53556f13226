package budget

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/spelling"
	"github.com/memestimate/memestimate/test/testfile"
)

// TestSchema holds docs/schema/memestimate.schema.json, for editors, to the keys that the parser has.
func TestSchema(t *testing.T) {
	s := object(fileKeys, "#")
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", "memestimate budget"
	s.Description = "What the models of a repository may take on a GPU: memestimate check"
	s.Defs = map[string]*jsonschema.Schema{"settings": object(settingKeys, "#/$defs/settings"),
		"limits": object(limitKeys, "#/$defs/limits"), "models": object(modelKeys, "#/$defs/models")}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	data = append(data, '\n')
	const path = "../../docs/schema/memestimate.schema.json"
	if *update {
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%s is out of date: go test ./gate/budget -update (%v)", path, err)
	}
}

// object is a mapping with these keys at a place of the schema. A key has the names that spelling.Key takes for it.
func object(keys []key, place string) *jsonschema.Schema {
	out := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{},
		PatternProperties: map[string]*jsonschema.Schema{}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	for _, k := range keys {
		s := schemaOf(k)
		s.Description = k.doc
		out.Properties[k.name] = s
		if k.must {
			out.Required = append(out.Required, k.name) // under this name, which has no other
			continue
		}
		out.PatternProperties[spelling.KeyPattern(k.name)] = &jsonschema.Schema{Ref: place + "/properties/" + k.name}
	}
	return out
}

func schemaOf(k key) *jsonschema.Schema {
	one := &jsonschema.Schema{Type: "string", MinLength: new(1)}
	if p := patterns()[k.name]; p != "" {
		one = pattern(p)
	} else if k.enum != nil {
		one = &jsonschema.Schema{}
		for _, name := range k.enum {
			one.Enum = append(one.Enum, name)
		}
	}
	whole := &jsonschema.Schema{Type: "integer", Minimum: new(1.0)}
	switch k.kind {
	case texts:
		return oneOrList(one)
	case yesno:
		return &jsonschema.Schema{Type: "boolean"}
	case number:
		if k.name == "version" {
			return &jsonschema.Schema{Const: new(any(1))}
		}
		return whole
	case numbers:
		return oneOrList(whole)
	case sizes:
		return named(whole)
	case shapes:
		return named(anyOf(pattern(shapePattern), &jsonschema.Schema{Type: "integer", Minimum: new(0.0)}))
	case amount:
		return pattern(sizePattern)
	case growth:
		return anyOf(pattern(sharePattern), pattern(sizePattern), &jsonschema.Schema{Const: new(any(0))})
	case nested:
		return &jsonschema.Schema{Ref: "#/$defs/" + k.name}
	case list:
		o := &jsonschema.Schema{Ref: "#/$defs/" + k.name}
		if k.name == "models" {
			o = anyOf(o, &jsonschema.Schema{Type: "string", MinLength: new(1)})
		}
		return oneOrList(o)
	}
	return one
}

func anyOf(all ...*jsonschema.Schema) *jsonschema.Schema { return &jsonschema.Schema{AnyOf: all} }

func pattern(p string) *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Pattern: p} }

func named(of *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", PropertyNames: &jsonschema.Schema{MinLength: new(1)}, AdditionalProperties: of}
}

func oneOrList(one *jsonschema.Schema) *jsonschema.Schema {
	return anyOf(one, &jsonschema.Schema{Type: "array", Items: one.CloneSchemas(), MinItems: new(1)})
}

// patterns are of the settings whose values other packages know.
var patterns = sync.OnceValue(func() map[string]string {
	var gpus, precisions []string
	for _, d := range gpu.Known() {
		gpus = append(gpus, anyCase(d.ID), anyCase(d.Name))
	}
	for _, p := range torch.Precisions {
		precisions = append(precisions, string(p))
	}
	known := "^(" + strings.Join(gpus, "|") + ")$"
	out := map[string]string{"gpu": known, "fits": known}
	for key, names := range map[string][]string{
		"optimizer": torch.Optimizers, "loss": torch.Losses, "precision": precisions,
		"mode": {"train", "infer"}, "zero-grad": {"none", "zeros"}, "grad-scaler": {"auto", "on", "off"},
	} {
		out[key] = spelling.Pattern(key, names)
	}
	return out
})

// anyCase is a pattern of a text in capitals or not: JSON Schema has no flag for that.
func anyCase(text string) string {
	var b strings.Builder
	for _, c := range text {
		if lower, upper := strings.ToLower(string(c)), strings.ToUpper(string(c)); lower != upper {
			b.WriteString("[" + upper + lower + "]")
		} else {
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return b.String()
}

// TestTable holds the table of keys in the documentation to those that the parser has.
func TestTable(t *testing.T) {
	keys := testfile.Between(t, "../../docs/pull-requests.md", "<!-- keys -->\n", "<!-- end of keys -->")
	if *update {
		keys.Write(t, keyTable())
	} else if keys.Text != keyTable() {
		t.Error("the table of keys in docs/pull-requests.md is out of date: go test ./gate/budget -update")
	}
}

// keyTable returns the keys as Markdown tables, one for each mapping.
func keyTable() string {
	var b strings.Builder
	for _, t := range []struct {
		title string
		keys  []key
	}{{"The file", fileKeys}, {"An entry of `models`", modelKeys}, {"`settings`", settingKeys}, {"`limits`", limitKeys}} {
		fmt.Fprintf(&b, "%s:\n\n| key | value | meaning |\n|---|---|---|\n", t.title)
		for _, k := range t.keys {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.name, valueOf(k), strings.ReplaceAll(k.doc, "*", `\*`))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func valueOf(k key) string {
	many := k.kind == texts || k.kind == numbers || k.kind == list
	s := map[kind]string{
		text: "text", texts: "text", yesno: "`true` or `false`", number: "whole number", numbers: "whole number",
		sizes:  "names with whole numbers",
		shapes: "names with shapes", amount: "size such as `24GiB`", growth: "`5%` or a size", nested: "mapping",
		list: "mapping",
	}[k.kind]
	if k.enum != nil {
		s = "`" + strings.Join(k.enum, "`, `") + "`"
	}
	if many {
		s += ", or a list"
	}
	return s
}
