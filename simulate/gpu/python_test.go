package gpu

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the Python package's table of devices anew")

// The Python package must know the devices without asking the program: PyTorch's choices depend on them.
func TestPythonTable(t *testing.T) {
	const path = "../../python/src/memestimate/core/gpus.py"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("GPUS = (\n")
	for _, d := range Known() {
		d = d.Like(Default()) // PyTorch is told that it is this one, with another memory
		fmt.Fprintf(&table, "    GPU(%q, %q, (%d, %d), %d, %s),\n",
			d.ID, d.Name, d.Capability.Major, d.Capability.Minor, d.Multiprocessors, grouped(d.Memory))
	}
	table.WriteString(")\n")
	block := regexp.MustCompile(`(?ms)^GPUS = \(\n.*?^\)\n`)
	if n := len(block.FindAll(text, -1)); n != 1 {
		t.Fatalf("%s: %d tables of devices, want 1", path, n)
	}
	if line := fmt.Sprintf("\nCONTEXT = %d << 20\n", contextBase>>20); !strings.Contains(string(text), line) {
		t.Errorf("%s: want %q", path, line)
	}
	want := block.ReplaceAllLiteralString(string(text), table.String())
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s: the devices are not those of gpu.go; go test ./simulate/gpu -update writes them:\n%s", path, &table)
	}
	if err := os.WriteFile(path, []byte(want), 0o666); err != nil {
		t.Fatal(err)
	}
}

// grouped returns a number as Python's formatter leaves it: 1_000_000.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "_" + s[i:]
	}
	return s
}
