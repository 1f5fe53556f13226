package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/test/must"
)

// TestBudgetSchema holds docs/schema/memestimate.schema.json, for editors, to the keys of budget files and to the flags
// that are their settings. It has each under one name alone, which editors propose; other spellings are read as well.
func TestBudgetSchema(t *testing.T) {
	s := objectOf(budget.FileKeys)
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", "memestimate budget"
	s.Description = "What the models of a repository may take on a GPU: memestimate check"
	gpus := slices.DeleteFunc(gpuNames(), func(name string) bool { return name == "auto" })
	s.Defs = map[string]*jsonschema.Schema{"settings": settingsSchema(), "gpu": enumOf(gpus)}
	data, err := json.MarshalIndent(s, "", "  ")
	must.OK(t, err)
	data = append(data, '\n')
	const path = "../../docs/schema/memestimate.schema.json"
	if *updateReadme {
		must.OK(t, os.WriteFile(path, data, 0o666))
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%s is out of date: go test ./cmd/memestimate -run BudgetSchema -update-readme (%v)", path, err)
	}
}

// object is a mapping with these keys and no others.
func object() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
}

func objectOf(keys []budget.Key) *jsonschema.Schema {
	out := object()
	for _, k := range keys {
		s := schemaOf(k)
		s.Description = k.Doc
		out.Properties[k.Name] = s
		if k.Must {
			out.Required = append(out.Required, k.Name)
		}
	}
	return out
}

const (
	sizePattern  = `^[0-9]{1,9}([.][0-9]{1,9})? ?([kKmMgGtT][iI]?[bB]?|[bB])$`
	sharePattern = `^[0-9]{1,6}([.][0-9]{1,6})? ?%$`
	shapePattern = `^(scalar|[0-9]{1,18}(x[0-9]{1,18})*)$`
)

func schemaOf(k budget.Key) *jsonschema.Schema {
	word := &jsonschema.Schema{Type: "string", MinLength: new(1)}
	switch {
	case k.Name == "version":
		return &jsonschema.Schema{Const: new(any(1))}
	case k.Name == "fits":
		return oneOrList(&jsonschema.Schema{Ref: "#/$defs/gpu"})
	case k.Enum != nil:
		return enumOf(k.Enum)
	}
	switch k.Kind {
	case "texts":
		return oneOrList(word)
	case "yesno":
		return &jsonschema.Schema{Type: "boolean"}
	case "amount":
		return pattern(sizePattern)
	case "growth":
		return anyOf(pattern(sharePattern), pattern(sizePattern), &jsonschema.Schema{Const: new(any(0))})
	case "settings":
		return oneOrList(&jsonschema.Schema{Ref: "#/$defs/settings"})
	case "nested":
		return objectOf(k.Keys)
	case "list":
		return oneOrList(anyOf(objectOf(k.Keys), word))
	}
	return word
}

// settingsSchema is made from the rows of flags.
func settingsSchema() *jsonschema.Schema {
	out, known := object(), settingNames()
	whole := &jsonschema.Schema{Type: "integer", Minimum: new(1.0)}
	for _, r := range (&settings{}).rows() {
		name, _, _ := strings.Cut(r.name, " ")
		if !slices.Contains(known, name) {
			continue
		}
		s := &jsonschema.Schema{Type: "string", MinLength: new(1)}
		switch v := r.value.(type) {
		case *bool:
			s = &jsonschema.Schema{Type: "boolean"}
		case *int, *parsed[int], *parsed[int64]:
			s = whole.CloneSchemas()
		case *parsed[map[string]int64]:
			s = named(whole)
		case *parsed[map[string][]int64]:
			s = named(anyOf(pattern(shapePattern), &jsonschema.Schema{Type: "integer", Minimum: new(0.0)}))
		case *parsed[string]:
			if name == "gpu" {
				s = &jsonschema.Schema{Ref: "#/$defs/gpu"}
			} else if v.names != nil {
				s = enumOf(v.names())
			}
		}
		if slices.Contains(axes, name) {
			s = oneOrList(s)
		}
		s.Description = r.usage
		out.Properties[name] = s
	}
	return out
}

func anyOf(all ...*jsonschema.Schema) *jsonschema.Schema { return &jsonschema.Schema{AnyOf: all} }

func pattern(p string) *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Pattern: p} }

func enumOf(names []string) *jsonschema.Schema {
	s := &jsonschema.Schema{}
	for _, name := range names {
		s.Enum = append(s.Enum, name)
	}
	return s
}

func named(of *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", PropertyNames: &jsonschema.Schema{MinLength: new(1)}, AdditionalProperties: of}
}

func oneOrList(one *jsonschema.Schema) *jsonschema.Schema {
	return anyOf(one, &jsonschema.Schema{Type: "array", Items: one.CloneSchemas(), MinItems: new(1)})
}
