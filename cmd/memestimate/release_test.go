package main

import (
	"bufio"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The release script says what it lacks before it builds or removes anything.
func TestReleaseScriptRefuses(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	_, err := os.Stat("../../dist")
	had := err == nil
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "usage: scripts/release.sh VERSION"},
		{[]string{"latest"}, "latest is not a version such as v1.2.3"},
		{[]string{"v0.0.1", "linux/arm64", "linux/amd64"}, "release.sh: no C compiler for linux/"},
	} {
		cmd := exec.Command("bash", append([]string{"../../scripts/release.sh"}, tt.args...)...)
		cmd.Env = append(os.Environ(), "CC=nonesuch", "CC_linux_arm64=nonesuch", "CC_linux_amd64=nonesuch", "NOGPU=")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("%q: %v: %s", tt.args, err, out)
		}
	}
	if _, err := os.Stat("../../dist"); (err == nil) != had {
		t.Error("a refused release leaves or removes dist")
	}
}

// What the pages of a release's archive link to is in it, under the same path.
func TestReleaseHasWhatItsPagesLinkTo(t *testing.T) {
	const root = "../../"
	script, err := os.ReadFile(root + "scripts/release.sh")
	if err != nil {
		t.Fatal(err)
	}
	texts := regexp.MustCompile(`(?m)^texts=\((.*)\)$`).FindSubmatch(script)
	if texts == nil || !strings.Contains(string(script), `"${texts[@]}"`) {
		t.Fatal("release.sh does not say which texts an archive has")
	}
	has := map[string]bool{}
	for _, name := range strings.Fields(string(texts[1])) {
		err := filepath.WalkDir(root+name, func(path string, d fs.DirEntry, err error) error {
			has[strings.TrimPrefix(filepath.ToSlash(path), root)] = true
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	links, commands := 0, regexp.MustCompile(`scripts/[a-z_]+\.(?:py|sh)`)
	for name := range has {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		page, err := os.ReadFile(root + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\]\(([^)]*)\)`).FindAllStringSubmatch(string(page), -1) {
			to, _, _ := strings.Cut(m[1], "#")
			if to == "" || strings.Contains(to, "://") {
				continue
			}
			links++
			if to = path.Join(path.Dir(name), to); !has[to] {
				t.Errorf("%s links to %s, which the archive has not", name, to)
			}
		}
		if name == "README.md" || name == "docs/exporting.md" { // for users of the program
			for _, script := range commands.FindAllString(string(page), -1) {
				if !has[script] {
					t.Errorf("%s has one run %s, which the archive has not", name, script)
				}
			}
		}
	}
	if links < 20 {
		t.Errorf("only %d links", links)
	}
}

// The Containerfile copies what there is and what is not ignored, from images with whole names.
func TestContainerfile(t *testing.T) {
	data, err := os.ReadFile("../../Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	ignored := map[string]bool{}
	for _, name := range []string{"../../.containerignore", "../../.dockerignore"} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		n := 0
		for lines.Scan() {
			ignored[lines.Text()] = true
			n++
		}
		f.Close()
		if n != len(ignored) {
			t.Error(".containerignore and .dockerignore differ")
		}
	}
	whole := regexp.MustCompile(`^[a-z0-9.-]+\.[a-z]+/[^ ]+:[^ ]+$`)
	copied := 0
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		switch {
		case len(f) > 1 && f[0] == "FROM" && !whole.MatchString(f[1]):
			t.Errorf("%s: the name of the image is not whole", f[1])
		case len(f) > 2 && f[0] == "COPY":
			for _, path := range f[1 : len(f)-1] {
				path = strings.TrimPrefix(path, "/src/")
				if strings.HasPrefix(path, "--") || path == "/memestimate" { // which the first stage builds
					continue
				}
				if _, err := os.Stat("../../" + path); err != nil || ignored[path] {
					t.Errorf("%s is copied: %v, ignored %v", path, err, ignored[path])
				}
				copied++
			}
		}
	}
	if copied < 5 {
		t.Errorf("%d paths are copied", copied)
	}
}
