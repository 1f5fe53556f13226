package gpu

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The Python package has the default device, for what is recorded without asking the program.
func TestPythonDefault(t *testing.T) {
	const path = "../../python/src/memestimate/core/gpus.py"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := Default()
	for _, line := range []string{
		fmt.Sprintf("\nDEFAULT = GPU(%q, %q, (%d, %d), %d, %d)\n",
			d.ID, d.Name, d.Capability.Major, d.Capability.Minor, d.Multiprocessors, d.Memory),
		fmt.Sprintf("\nCONTEXT = %d << 20\n", contextBase>>20),
	} {
		if !strings.Contains(string(text), line) {
			t.Errorf("%s: want %q", path, line)
		}
	}
}
