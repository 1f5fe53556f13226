//go:build !js

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mostKept is how many recordings the cache has, and how many rows of tables; the oldest go first.
const mostKept = 256

// An answerCache keeps recordings of configurations by all that decides them: the configuration, the way, the Python
// package, and what is installed for the interpreter. A folder of "" keeps nothing.
type answerCache struct {
	folder   string
	python   string
	question *question
	fixed    []string

	state string // what is installed, "" until it is known
}

// An installation says of the folders that an interpreter's packages are in when each was last changed: whoever
// installs, updates or removes a package changes the time of its folder.
type installation map[string]string

// stamp is when something was last changed, "" where it is not there.
func stamp(path string) string {
	st, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(st.ModTime().UnixNano(), 36)
}

func (c *answerCache) installationFile() string {
	return filepath.Join(c.folder, "interpreters", digest(c.python)+".json")
}

// installed notes where the interpreter's packages are.
func (c *answerCache) installed(folders []string) {
	if c.folder == "" {
		return
	}
	in := installation{c.python: stamp(c.python)}
	for _, f := range folders {
		if filepath.Dir(f) != filepath.Join(c.folder, "python") { // this program's own package, which is known
			in[f] = stamp(f)
		}
	}
	if data, err := json.Marshal(in); err == nil {
		keepFile(c.installationFile(), data)
		c.state = digest(string(data))
	}
}

// known reads what is installed, where nothing has changed since it was noted.
func (c *answerCache) known() bool {
	if c.state != "" || c.folder == "" {
		return c.state != ""
	}
	var in installation
	data, err := os.ReadFile(c.installationFile())
	if err != nil || json.Unmarshal(data, &in) != nil {
		return false
	}
	for folder, then := range in {
		if stamp(folder) != then {
			return false
		}
	}
	c.state = digest(string(data))
	return true
}

func (c *answerCache) file(w *tuning) string {
	way, _ := json.Marshal(w) // of texts and numbers, which always can be
	parts := append([]string{c.state, c.question.Model, c.question.GPU, strconv.Itoa(c.question.Steps), string(way)},
		c.fixed...)
	return filepath.Join(c.folder, "recordings", digest(parts...)+".mrec")
}

// find returns the recording of a way that is kept, or "".
func (c *answerCache) find(w *tuning) string {
	if !c.known() {
		return ""
	}
	path := c.file(w)
	if !exists(path) {
		return ""
	}
	return path
}

// put keeps a recording. That it cannot is no error.
func (c *answerCache) put(w *tuning, file string) {
	if c.folder == "" || c.state == "" {
		return
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return
	}
	path := c.file(w)
	keepFile(path, data)
	c.prune(filepath.Dir(path))
}

// told returns what this program says of the recording of a way under some settings, which is kept as long as the
// program is the same file.
func (c *answerCache) told(w *tuning, settings string, say func() (string, error)) (string, error) {
	program, err := os.Executable()
	if err != nil || !c.known() {
		return say()
	}
	path := filepath.Join(c.folder, "told", digest(c.file(w), program, stamp(program), settings))
	if text, err := os.ReadFile(path); err == nil {
		return string(text), nil
	}
	text, err := say()
	if err == nil {
		keepFile(path, []byte(text))
		c.prune(filepath.Dir(path))
	}
	return text, err
}

// firstAnswer writes the answer about the way that was asked for: as it was told before, where all that decides its text
// is the same. What does not fit is answered anew, since its exit code says so as well.
func (t *tuner) firstAnswer(e *env, cmd *cobra.Command, in source, c *answerCache) error {
	width := columns(e, e.stdout)
	if !t.answer.look.short(&t.out) || t.answer.snapshot != "" || t.settings.run.gpu == "auto" {
		return runEstimate(e, cmd, in, &t.settings, &t.answer, &t.out)
	}
	settings := fmt.Sprintf("%s %t %#v", in.name, e.terminal, t.answer.look.of(e, &t.out))
	cmd.Flags().Visit(func(f *pflag.Flag) { settings += fmt.Sprintf(" --%s=%q", f.Name, f.Value) })
	text, err := c.told(&t.way, settings, func() (string, error) {
		var text strings.Builder
		inner := *e
		inner.stdout = &text
		inner.getenv = func(name string) string {
			if name == "COLUMNS" && width > 0 { // of the terminal, which the text is not written to
				return strconv.Itoa(width)
			}
			return e.getenv(name)
		}
		err := runEstimate(&inner, cmd, in, &t.settings, &t.answer, &t.out)
		return text.String(), err
	})
	if _, failed := io.WriteString(e.stdout, text); failed != nil {
		return outputError(failed)
	}
	return err
}

// prune deletes the oldest files beyond mostKept.
func (c *answerCache) prune(folder string) {
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) <= mostKept {
		return
	}
	var all []fs.FileInfo
	for _, d := range entries {
		if st, err := d.Info(); err == nil {
			all = append(all, st)
		}
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, old := range all[:max(0, len(all)-mostKept)] {
		os.Remove(filepath.Join(folder, old.Name()))
	}
}

// keepFile writes a file of the cache, whole or not at all. That it cannot is no error.
func keepFile(path string, data []byte) {
	if os.MkdirAll(filepath.Dir(path), 0o700) == nil {
		_ = writeFile(path, func(w io.Writer) error { _, err := w.Write(data); return err })
	}
}

// configurationOf returns the configuration that a word stands for as far as this machine has it as a file: what is in
// the table is part of the Python package.
func configurationOf(e *env, word string) string {
	path := word
	if st, err := os.Stat(word); err != nil {
		path = hubCached(e, hubName(word))
	} else if st.IsDir() {
		path = filepath.Join(word, configurationName)
	}
	data, err := readConfiguration(path)
	if err != nil {
		return ""
	}
	return string(data)
}
