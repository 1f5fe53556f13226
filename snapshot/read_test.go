package snapshot

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

func load(t testing.TB, name string) *Snapshot {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".pickle.gz"))
	must.OK(t, err)
	defer f.Close()
	s, err := Read(f, Options{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}
