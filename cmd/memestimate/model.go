package main

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/report"
)

// A source is a model as the command line names it.
type source struct {
	arg  string
	name string // for reports: the file's base name, or the built-in model's
	file string // its path; "" when it is not a file

	revision string        // REV:PATH in git; "" when it is not
	blob     *revisionFile // the file of the revision, where it is found already

	made  bool             // the file is a recording that was made of what the command line names
	sizes map[string]int64 // what it was made at
	sized bool             // a built-in model gets other sizes than its own

	others []string // further files: recordings of the same program at other batch sizes

	all   string // the arguments as a hint repeats them, where MODEL is not the only one; "" where it is
	after string // what the command line ends with: " -- COMMAND"
}

// resolve says what a MODEL argument stands for. A built-in name wins over a file of
// that name, which ./ in front tells apart: what is built in must not depend on the
// folder one is in.
func resolve(arg string) source {
	if arg == "-" {
		return source{arg: arg, name: "standard input"}
	}
	if s, ok := resolveRevision(arg); ok {
		return s
	}
	if _, err := models.Info(arg); err == nil {
		return source{arg: arg, name: arg}
	}
	if name := models.Meant(arg); name != "" && !exists(arg) {
		return source{arg: name, name: name}
	}
	return source{arg: arg, name: filepath.Base(arg), file: arg}
}

// revisionPrefix begins a MODEL that is a file of a git revision: git:REV:PATH.
const revisionPrefix = "git:"

// resolveRevision takes git:REV:PATH apart. The revision may be anything that git knows, the path is from the
// top of the repository, or from the current folder where it begins with "./".
func resolveRevision(arg string) (source, bool) {
	text, ok := strings.CutPrefix(arg, revisionPrefix)
	if !ok {
		return source{}, false
	}
	_, file, _ := strings.Cut(text, ":")
	return source{arg: arg, name: path.Base(file), revision: text}, true
}

// openRevision reads a model from git; weights beside the model are not read, here as everywhere.
func (s source) openRevision() (m *onnxload.Model, err error) {
	err = s.atRevision(func(r io.Reader) (err error) {
		m, err = onnxload.ReadStream(r, onnxload.Options{Path: s.arg})
		return inputError(err)
	})
	if err != nil && m != nil {
		m.Close()
		m = nil
	}
	return m, err
}

// builtIn reports whether the source is a built-in model.
func (s source) builtIn() bool { return s.file == "" && s.revision == "" && s.arg != "-" }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// open reads the model. Its Close must be called.
func (s source) open(e *env) (*onnxload.Model, error) {
	m, err := s.read(e)
	if err == nil {
		e.heap.hold(m.Size)
	}
	return m, err
}

func (s source) read(e *env) (*onnxload.Model, error) {
	switch {
	case s.arg == "-":
		m, err := onnxload.ReadStream(e.stdin, onnxload.Options{})
		return m, inputError(err)
	case s.revision != "":
		return s.openRevision()
	case s.file == "":
		graph := models.Open
		if s.sized {
			graph = models.OpenSized
		}
		data, err := graph(s.arg)
		if err != nil {
			return nil, usagef("%w", err).withHint("%s", didYouMean(nearestForm(s.arg)))
		}
		m, err := onnxload.Read(bytes.NewReader(data), int64(len(data)), onnxload.Options{Path: s.arg})
		if err != nil {
			return nil, inputError(err)
		}
		info, err := models.Info(s.arg)
		if err == nil {
			if info.SizedApart() && !s.sized {
				info.Sizes = nil
			}
			nameSizes(m, info.Sizes)
		}
		return m, err
	}
	m, err := onnxload.Open(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.missing()
	}
	if other := otherFile(s.file); err != nil && other != nil {
		return nil, other
	}
	return m, inputError(err)
}

// nameSizes gives the dimensions of a built-in model's input their usual names: the first, which torch.export calls
// "s23", is "batch", and the last ones are those that --dim gives other sizes than the graph was exported with. What
// the file says of the values between holds for its own sizes only; the rules find it out anew.
func nameSizes(m *onnxload.Model, sizes []string) {
	if len(m.Graph.Inputs) == 0 {
		return
	}
	input := m.Values[m.Graph.Inputs[0]].Declared
	if input == nil || len(input.Dims) == 0 {
		return
	}
	if first := input.Dims[0].Param; first != "" && first != "batch" {
		symbol := regexp.MustCompile(`\b` + regexp.QuoteMeta(first) + `\b`) // also in expressions
		renamed := map[*onnxload.Type]bool{}                                // values share their types
		for i := range m.Values {
			t := m.Values[i].Declared
			if t == nil || renamed[t] {
				continue
			}
			renamed[t] = true
			for k := range t.Dims {
				t.Dims[k].Param = symbol.ReplaceAllString(t.Dims[k].Param, "batch")
			}
		}
	}
	if len(sizes) == 0 {
		return
	}
	named := *input
	named.Dims = slices.Clone(input.Dims)
	for i, name := range sizes {
		named.Dims[len(named.Dims)-len(sizes)+i].Param = name
	}
	for i := range m.Values {
		if !slices.Contains(m.Graph.Inputs, onnxload.ValueID(i)) && m.Values[i].Init == nil {
			m.Values[i].Declared = nil
		}
	}
	m.Values[m.Graph.Inputs[0]].Declared = &named
}

// streamed reports whether the model can be read only once.
func (s source) streamed() bool {
	if s.arg == "-" || s.revision != "" {
		return true
	}
	st, err := os.Stat(s.file)
	return s.file != "" && err == nil && !st.Mode().IsRegular() && !st.IsDir()
}

// readSmall reads a file of at most limit bytes, of which the message says what it should be. A pipe may stand for it,
// and what has no end is not read to it: the size that the system gives says nothing of a device. A pipe that nobody
// has opened to write is not waited for.
func readSmall(path string, limit int64, what string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, fail(exitInput, "%s: %w", quoteArg(path), cause(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, fail(exitInput, "%s: %w", quoteArg(path), cause(err))
	case int64(len(data)) > limit:
		return nil, fail(exitInput, "%s: more than %s, which %s never has", quoteArg(path), report.Size(limit), what)
	case len(data) == 0 && isPipe(f):
		return nil, fail(exitInput, "%s: a pipe that nobody writes to, want %s", quoteArg(path), what)
	}
	return data, nil
}

// openFile opens a file to read.
func openFile(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail(exitInput, "%s: no such file", quoteArg(path))
	}
	if err != nil {
		return nil, fail(exitInput, "%s: %w", quoteArg(path), cause(err))
	}
	return f, nil
}

// open opens a file to read, or standard input where the argument is "-", and says what messages call it.
func (e *env) open(arg string) (in io.ReadCloser, name string, err error) {
	if arg == "-" {
		return io.NopCloser(e.stdin), e.nameOf(arg), nil
	}
	in, err = openFile(arg)
	return in, e.nameOf(arg), err
}

// nameOf is what messages call a file, or standard input.
func (e *env) nameOf(arg string) string {
	if arg == "-" {
		return cmp.Or(e.stdinName, "standard input")
	}
	return quoteArg(arg)
}

func isPipe(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&fs.ModeNamedPipe != 0
}

func inputError(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code: exitInput, err: err}
}

// fileEndings are those of files that memestimate reads, or says what they are: names of models have others, "-3.1".
var fileEndings = []string{".onnx", ".mrec", ".pickle", ".pkl", ".json", ".py", ".yaml", ".pt", ".pth", ".bin", ".gguf",
	".safetensors", ".ipynb", ".keras", ".h5", ".ckpt", ".pt2", ".pb", ".tflite", ".csv", ".gz", ".zip"}

// missing says that there is neither such a file nor such a built-in model.
func (s source) missing() error {
	err := fail(exitInput, "%s: no such file", quoteArg(s.file))
	if near := s.file + ".onnx"; exists(near) { // its ending was left out
		return err.withHint("there is %s", quoteArg(near))
	}
	if hint := elsewhere(s.file); hint != "" {
		return err.withHint("%s", hint)
	}
	if strings.ContainsAny(s.file, `/\`) || slices.Contains(fileEndings, filepath.Ext(s.file)) {
		return err
	}
	err = fail(exitInput, "%s: no such file, and no built-in model of that name", quoteArg(s.file))
	near, all := nearest(s.file, models.Names()), family(s.file)
	switch {
	case near != "" && (len(all) == 0 || edits(near, s.file) < 2):
		return err.withHint("%s", didYouMean(near))
	case len(all) > 0:
		return err.withHint("of its family there are %s; %s", strings.Join(all, ", "), recordHint)
	}
	return err.withHint("memestimate models lists the built-in ones; %s", recordHint)
}

// recordHint says how any model is estimated that Python can run.
const recordHint = "or ask from Python: memestimate.estimate(model, inputs)"

// hubID is what a model on the Hugging Face Hub is called.
var hubID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$`)
})

// elsewhere says how to get at a model that an address or a name of the Hugging Face Hub stands for, "" for anything
// else.
func elsewhere(arg string) string {
	switch {
	case strings.HasPrefix(arg, "http://") || strings.HasPrefix(arg, "https://"):
		if strings.HasSuffix(arg, ".onnx") {
			return "nothing is fetched: curl -L " + quoteArg(arg) + " | memestimate -"
		}
		return "nothing is fetched: memestimate FILE, or memestimate ORG/NAME for a model of huggingface.co"
	case hubID().MatchString(arg) && filepath.Ext(arg) != ".onnx":
		if st, err := os.Stat(filepath.Dir(arg)); err != nil || !st.IsDir() {
			return "a model of the Hugging Face Hub is recorded first: memestimate " + arg + " --recording step.mrec"
		}
	}
	return ""
}

// family returns the built-in models whose names begin with the same letters: resnet18 and resnet50 for resnet101.
func family(typed string) (out []string) {
	letters := func(s string) string {
		s = strings.ToLower(s)
		if end := strings.IndexFunc(s, func(r rune) bool { return r < 'a' || r > 'z' }); end >= 0 {
			return s[:end]
		}
		return s
	}
	name := letters(typed)
	if len(name) < 3 {
		return nil
	}
	for _, m := range models.Names() {
		if letters(m) == name {
			out = append(out, m)
		}
	}
	return out
}

// nearestForm returns the form of a built-in model that was meant, or "".
func nearestForm(arg string) string {
	name, form, _ := strings.Cut(arg, ":")
	m, err := models.Info(name)
	if near := nearest(form, m.Forms); err == nil && near != "" {
		return name + ":" + near
	}
	return ""
}

// completeModel offers the built-in models for MODEL, and files.
var completeModel = completeModels(1)

// completeModels is completeModel for a command that takes n models.
func completeModels(n int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) (out []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, name := range models.Names() {
			if strings.HasPrefix(name, typed) {
				out = append(out, name)
			}
		}
		return out, cobra.ShellCompDirectiveDefault
	}
}

// hintArg is quoteArg for an argument of a command that is proposed: a file whose name begins with a hyphen is no flag
// there.
func hintArg(s string) string {
	if strings.HasPrefix(s, "-") && s != "-" {
		s = "./" + s
	}
	return quoteArg(s)
}

// quoteArg shows an argument as a shell would need it typed.
func quoteArg(s string) string { return report.QuoteArg(s) }
