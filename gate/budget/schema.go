package budget

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/memestimate/memestimate/spelling"
)

// Schema returns the JSON Schema of a budget file, for editors. patterns are of the settings whose names other
// packages know, by the names of their keys.
func Schema(patterns map[string]string) ([]byte, error) {
	s := object(fileKeys, patterns, "#")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "memestimate budget"
	s["description"] = "What the models of a repository may take on a GPU: memestimate check"
	s["$defs"] = map[string]any{
		"settings": object(settingKeys, patterns, "#/$defs/settings"), "limits": object(limitKeys, patterns,
			"#/$defs/limits"),
		"models": object(modelKeys, patterns, "#/$defs/models"),
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(s)
	return b.Bytes(), err
}

// object is a mapping with these keys, which stands at a place of the schema. A key has the names that spelling.Key
// takes for it.
func object(keys []key, patterns map[string]string, place string) map[string]any {
	properties, others := map[string]any{}, map[string]any{}
	var required []string
	for _, k := range keys {
		s := schemaOf(k, patterns)
		s["description"] = k.doc
		properties[k.name] = s
		if k.must {
			required = append(required, k.name) // under this name, which has no other
			continue
		}
		others[spelling.KeyPattern(k.name)] = map[string]any{"$ref": place + "/properties/" + k.name}
	}
	out := map[string]any{"type": "object", "properties": properties, "patternProperties": others,
		"additionalProperties": false}
	if required != nil {
		out["required"] = required
	}
	return out
}

func schemaOf(k key, patterns map[string]string) map[string]any {
	pattern := func(p string) map[string]any { return map[string]any{"type": "string", "pattern": p} }
	one := map[string]any{"type": "string", "minLength": 1}
	if p := patterns[k.name]; p != "" {
		one = pattern(p)
	} else if k.enum != nil {
		one = map[string]any{"enum": k.enum}
	}
	whole := map[string]any{"type": "integer", "minimum": 1}
	named := func(of map[string]any) map[string]any {
		return map[string]any{"type": "object", "propertyNames": map[string]any{"minLength": 1}, "additionalProperties": of}
	}
	switch k.kind {
	case texts:
		return oneOrList(one)
	case yesno:
		return map[string]any{"type": "boolean"}
	case number:
		if k.name == "version" {
			return map[string]any{"const": 1}
		}
		return whole
	case numbers:
		return oneOrList(whole)
	case sizes:
		return named(whole)
	case shapes:
		return named(map[string]any{"anyOf": []any{pattern(shapePattern), map[string]any{"type": "integer", "minimum": 0}}})
	case amount:
		return pattern(sizePattern)
	case growth:
		return map[string]any{"anyOf": []any{pattern(sharePattern), pattern(sizePattern), map[string]any{"const": 0}}}
	case nested:
		return map[string]any{"$ref": "#/$defs/" + k.name}
	case list:
		o := map[string]any{"$ref": "#/$defs/" + k.name}
		if k.name == "models" {
			o = map[string]any{"anyOf": []any{o, map[string]any{"type": "string", "minLength": 1}}}
		}
		return oneOrList(o)
	}
	return one
}

func oneOrList(one map[string]any) map[string]any {
	return map[string]any{"anyOf": []any{one, map[string]any{"type": "array", "items": one, "minItems": 1}}}
}

// Table returns the keys as Markdown tables, one for each mapping, for the documentation.
func Table() string {
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
