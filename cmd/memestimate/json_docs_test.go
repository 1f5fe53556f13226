package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/gate"
	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/test/must"
)

// docs/json.md names every field of the JSON forms, and no form of which there is none.
func TestJSONPage(t *testing.T) {
	data := must.Read(t, "../../docs/json.md")
	page := string(data)
	for _, v := range []any{estimate.Report{}, diff.Diff{}, estimate.Fitting{}, budget.Line{}} {
		seen := map[reflect.Type]bool{}
		fieldNames(reflect.TypeOf(v), seen, func(in reflect.Type, name string) {
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("docs/json.md does not name %s of %s", name, in)
			}
		})
		if len(seen) == 0 {
			t.Errorf("%T has no fields", v)
		}
	}
	for _, schema := range []string{estimate.Schema, diff.Schema, gate.Schema} {
		if !strings.Contains(page, "`"+schema+"`") {
			t.Errorf("docs/json.md does not name %s", schema)
		}
	}
}

// fieldNames visits the names that JSON has for the fields of a type and of those within it.
func fieldNames(t reflect.Type, seen map[reflect.Type]bool, visit func(in reflect.Type, name string)) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		fieldNames(t.Elem(), seen, visit)
		return
	case reflect.Struct:
	default:
		return
	}
	if seen[t] {
		return
	}
	seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || name == "" {
			continue
		}
		visit(t, name)
		fieldNames(f.Type, seen, visit)
	}
}
