package budget

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/testfile"
)

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
		keys  []Key
	}{{"The file", FileKeys}, {"An entry of `models`", modelKeys}, {"`limits`", limitKeys}} {
		fmt.Fprintf(&b, "%s:\n\n| key | value | meaning |\n|---|---|---|\n", t.title)
		for _, k := range t.keys {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Name, valueOf(k), strings.ReplaceAll(k.Doc, "*", `\*`))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func valueOf(k Key) string {
	s := map[kind]string{
		text: "text", texts: "text, or a list", yesno: "`true` or `false`", number: "whole number",
		amount: "size such as `24GiB`", growth: "`5%` or a size", nested: "mapping", list: "mapping, or a list",
		settings: "mapping, or a list",
	}[k.Kind]
	if k.Enum != nil {
		s = "`" + strings.Join(k.Enum, "`, `") + "`"
	}
	return s
}
