package gpu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// The Python package has the default device, for what is recorded without asking the program.
func TestPythonDefault(t *testing.T) {
	const path = "../../python/src/memestimate/core/gpus.py"
	text := must.Read(t, path)
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
