package budget

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Schema returns the JSON Schema of a budget file, for editors.
func Schema() ([]byte, error) {
	s := object(fileKeys)
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "memestimate budget"
	s["description"] = "What the models of a repository may take on a GPU: memestimate check"
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(s)
	return b.Bytes(), err
}

func object(keys []key) map[string]any {
	properties := map[string]any{}
	var required []string
	for _, k := range keys {
		s := schemaOf(k)
		s["description"] = k.doc
		properties[k.name] = s
		if k.must {
			required = append(required, k.name)
		}
	}
	out := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		out["required"] = required
	}
	return out
}

func schemaOf(k key) map[string]any {
	one := map[string]any{"type": "string", "minLength": 1}
	if k.enum != nil {
		one = map[string]any{"enum": k.enum}
	}
	whole := map[string]any{"type": "integer", "minimum": 1}
	size := map[string]any{"anyOf": []any{
		map[string]any{"type": "string", "pattern": `^[0-9.]+ *([KMGTPE]i?)?B?$`},
		map[string]any{"type": "integer", "minimum": 0},
	}}
	switch k.kind {
	case texts:
		return oneOrList(one)
	case yesno:
		return map[string]any{"type": "boolean"}
	case number:
		return whole
	case numbers:
		return oneOrList(whole)
	case sizes:
		return map[string]any{"type": "object", "additionalProperties": whole}
	case shapes:
		return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": []string{"string", "integer"}}}
	case amount:
		return size
	case growth:
		return map[string]any{"anyOf": []any{map[string]any{"type": "string", "pattern": `^[0-9.]+ *%$`}, size}}
	case nested:
		return object(k.keys)
	case list:
		o := object(k.keys)
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
		text: "text", texts: "text", yesno: "`true` or `false`", number: "whole number", numbers: "whole number", sizes: "names with whole numbers",
		shapes: "names with shapes", amount: "size such as `24GiB`", growth: "`5%` or a size", nested: "mapping", list: "mapping",
	}[k.kind]
	if k.enum != nil {
		s = "`" + strings.Join(k.enum, "`, `") + "`"
	}
	if many {
		s += ", or a list"
	}
	return s
}
