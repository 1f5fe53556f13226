package spelling

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

var update = flag.Bool("update", false, "write the Python package's tables of words anew")

// The Python package takes the words that the program takes, and reads them without asking it.
func TestPythonTables(t *testing.T) {
	const path = "../python/src/memestimate/core/words.py"
	var b strings.Builder
	b.WriteString(`"""Words that users of PyTorch have for settings, from the program's tables.

` + "``go test ./spelling -update``" + ` writes this file anew.
"""

from __future__ import annotations

`)
	table := func(name string, words map[string]string) {
		fmt.Fprintf(&b, "%s: dict[str, str] = {\n", name)
		for _, w := range slices.Sorted(maps.Keys(words)) {
			fmt.Fprintf(&b, "    %q: %s,\n", w, words[w])
		}
		b.WriteString("}\n")
	}
	quoted := func(words map[string]string) map[string]string {
		out := map[string]string{}
		for w, meaning := range words {
			out[w] = fmt.Sprintf("%q", meaning)
		}
		return out
	}
	refused := map[string]string{}
	for _, n := range notModelled {
		for _, name := range n.names {
			refused[name] = strings.ReplaceAll(n.text, "%s", name)
			if n.hint != "" {
				refused[name] += "; " + strings.TrimPrefix(n.hint, "--precision ")
			}
		}
	}
	table("PRECISIONS", quoted(precisions))
	table("NOT_MODELLED", quoted(refused))
	table("MODES", quoted(modes))
	table("LOSSES", quoted(losses))
	table("OPTIMIZERS", quoted(optimizers))
	if *update {
		must.Write(t, path, []byte(b.String()))
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != b.String() {
		t.Errorf("%s has other words, %v; go test ./spelling -update writes it", path, err)
	}
}
