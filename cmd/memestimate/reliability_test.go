package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// Every test that test/catalogue.md names is there, every row of its catalogue has one.
func TestReliabilityPage(t *testing.T) {
	page := must.Read(t, filepath.Join(repository, "test", "catalogue.md"))
	there := map[string]bool{} // tests by name, and by package and name; scripts by file
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != repository:
			return fs.SkipDir
		case strings.HasSuffix(path, ".txtar"):
			there[d.Name()] = true
		case strings.HasSuffix(path, "_test.go"):
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range function.FindAllStringSubmatch(string(data), -1) {
				there[m[1]] = true
				there[filepath.Base(filepath.Dir(path))+"."+m[1]] = true
			}
		}
		return nil
	})
	must.OK(t, err)
	named := regexp.MustCompile("`((?:\\w+\\.)?(?:Test|Fuzz)\\w+|[\\w-]+\\.txtar)`")
	rows := map[int]bool{}
	for line := range strings.Lines(string(page)) {
		tests := named.FindAllStringSubmatch(line, -1)
		for _, m := range tests {
			if !there[m[1]] {
				t.Errorf("%s is no test", m[1])
			}
		}
		number, ok := strings.CutPrefix(line, "| A")
		if n, err := strconv.Atoi(strings.TrimSpace(strings.Split(number, "|")[0])); ok && err == nil {
			rows[n] = true
			if len(tests) == 0 {
				t.Errorf("A%d has no test", n)
			}
		}
	}
	if len(rows) < 100 {
		t.Errorf("%d rows", len(rows))
	}
}
