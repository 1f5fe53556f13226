//go:build !js

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
)

// commandFor builds the command that a command line is for: memestimate itself, for graphs, recordings and
// subcommands, or its form for a script or for a configuration, which take other flags. The arguments come back as that
// command takes them: a snapshot alone is shown.
func commandFor(e *env, args []string) (*cobra.Command, []string) {
	switch whatOf(args) {
	case aScript:
		return scriptCommand(e), args
	case aConfiguration:
		return tuneCommand(e), args
	case aSnapshot:
		args = append([]string{"snapshot", "show"}, args...)
	}
	return rootCommand(e, askedCommands(args)), args
}

// A what is a kind of thing that is estimated.
type what int

const (
	anythingElse   what = iota // a graph, a recording, a built-in model, or a subcommand
	aScript                    // of Python, or a launcher of one
	aConfiguration             // of a Hugging Face model
	aSnapshot                  // that PyTorch dumped
)

// whatOf finds what a command line is about.
func whatOf(args []string) what {
	at := firstWord(args)
	if at < 0 {
		return anythingElse
	}
	word := args[at]
	if slices.ContainsFunc(subcommands(), func(c subcommand) bool { return c.name == word }) ||
		slices.Contains([]string{"help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, word) {
		return anythingElse
	}
	if _, err := models.Info(word); err == nil {
		return anythingElse
	}
	switch {
	case isScript(word) || len(args) > at+1 && slices.Contains(launchers, word) && !exists(word):
		return aScript
	case isConfiguration(word):
		return aConfiguration
	case isSnapshot(word):
		return aSnapshot
	}
	return anythingElse
}

// firstWord returns the place of the first argument that is neither a flag nor the value of one, or -1.
func firstWord(args []string) int {
	if len(args) == 0 {
		return -1
	}
	if !strings.HasPrefix(args[0], "-") {
		return 0
	}
	known := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, f := range []*pflag.FlagSet{scriptCommand(&env{}).Flags(), tuneCommand(&env{}).Flags(),
		rootCommand(&env{}, nil).Flags()} {
		known.AddFlagSet(f)
	}
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "-")
		switch {
		case args[i] == "--":
			return -1
		case !isFlag || name == "":
			return i
		case strings.Contains(name, "="):
			continue
		}
		f := known.ShorthandLookup(name[:1])
		if long, ok := strings.CutPrefix(name, "-"); ok {
			f = known.Lookup(long)
		} else if len(name) > 1 { // -b32
			continue
		}
		if f != nil && f.NoOptDefVal == "" {
			i++
		}
	}
	return -1
}

// launchers are the programs that start scripts, as the Python package understands them.
var launchers = []string{"torchrun", "accelerate", "deepspeed", "fabric", "python", "python3"}

// isScript reports whether a word names a script of Python, which need not be there: its absence is said in its words.
func isScript(word string) bool {
	st, err := os.Stat(word)
	return filepath.Ext(word) == ".py" && (err != nil || !st.IsDir())
}

// isSnapshot reports whether a word is a file that torch.cuda.memory._dump_snapshot wrote, gzip compressed or not.
func isSnapshot(word string) bool {
	f, err := openRegular(word)
	if err != nil {
		return false
	}
	defer f.Close()
	head := bufio.NewReader(f)
	if z, err := gzip.NewReader(head); err == nil {
		head = bufio.NewReader(z)
	} else {
		f.Seek(0, io.SeekStart)
		head.Reset(f)
	}
	start, _ := head.Peek(512)
	return onnxload.IsSnapshot(start)
}

// isConfiguration reports whether a word is a config.json, a folder that has one, or a name on the Hugging Face Hub.
func isConfiguration(word string) bool {
	if st, err := os.Stat(word); err == nil {
		if st.IsDir() {
			return isConfigurationFile(filepath.Join(word, configurationName))
		}
		return st.Mode().IsRegular() && strings.EqualFold(filepath.Ext(word), ".json") && isConfigurationFile(word)
	}
	return hubName(word) != ""
}

const (
	configurationName = "config.json"
	mostConfiguration = 16 << 20 // bytes
)

// isConfigurationFile reports whether a file is the configuration of a Hugging Face model.
func isConfigurationFile(path string) bool {
	data, err := readConfiguration(path)
	if err != nil || !bytes.Contains(data, []byte(`"model_type"`)) {
		return false
	}
	var config struct {
		Type string `json:"model_type"`
	}
	return json.Unmarshal(data, &config) == nil && config.Type != ""
}

// readConfiguration reads what may be a configuration.
func readConfiguration(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostConfiguration))
}

// openRegular opens a file, but no pipe or device, which may have no end.
func openRegular(path string) (*os.File, error) {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return nil, cmp.Or(err, fs.ErrInvalid)
	}
	return os.Open(path)
}

// hubName returns what a model is called on the Hugging Face Hub, of its name or its address there; "" for anything
// else. A path whose folder is there is none.
func hubName(word string) string {
	name := strings.TrimSuffix(strings.TrimPrefix(word, "https://huggingface.co/"), "/")
	if strings.HasPrefix(name, ".") || !hubID().MatchString(name) || slices.Contains(fileEndings, filepath.Ext(name)) {
		return ""
	}
	if name == word && exists(filepath.Dir(word)) {
		return ""
	}
	return name
}
