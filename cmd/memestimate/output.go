package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/memestimate/memestimate/report"
)

// An output is where a command's result goes and in which form: the flags
// --format and --output.
type output struct {
	format  string
	file    string
	formats []string // the first one is the default
	folded  bool     // the result has lines for the terminal's width already
}

// flags adds --format with these choices, and --output.
func (o *output) flags(fs *pflag.FlagSet, formats ...string) {
	o.format, o.formats = formats[0], formats
	addFlags(fs, []flagRow{
		{"format f", 0, &o.format, "the `FORM`: " + strings.Join(formats, ", ")},
		{"output o", 0, &o.file, "write the result to this `FILE`, whole or not at all"},
	})
}

// check refuses a format that the command does not have, and an output that is one of the files that the command reads.
func (o *output) check(reads ...source) error {
	if !slices.Contains(o.formats, o.format) {
		return usagef("format %q is unknown, want %s", o.format, strings.Join(o.formats, ", ")).withHint("%s",
			didYouMean(nearest(o.format, o.formats)))
	}
	return notRead("output", o.file, reads...)
}

// errRead is why nothing at all is written to a file, not even what went wrong.
var errRead = errors.New("would replace a file that is read")

// notRead refuses to write to a file, the value of a flag, that the command reads.
func notRead(flag, file string, reads ...source) error {
	for _, in := range reads {
		if sameFile(in.file, file) {
			return usagef("--%s %s %w", flag, quoteArg(file), errRead)
		}
	}
	return nil
}

// fileSource is a file that a flag names.
func fileSource(path string) source { return source{arg: path, name: filepath.Base(path), file: path} }

// sameFile reports whether two paths name one regular file, which need not be there yet. None is "".
func sameFile(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX == nil && errY == nil {
		return os.SameFile(x, y) && x.Mode().IsRegular()
	}
	return errX != nil && errY != nil && filepath.Clean(a) == filepath.Clean(b)
}

// write sends the result that render makes to stdout or to the file. Nothing is written before the result is complete,
// or larger than mostHeld, so that a render which fails early leaves nothing behind. An error of writing need not be
// returned by render: it is kept.
func (o *output) write(e *env, render func(w io.Writer) error) error {
	if o.format == "html" && o.file == "" && e.terminal && e.stdinName == "" { // a page takes it all
		return usagef("a page of HTML is nothing for a terminal: name a file for it").
			withHint("--output run.html, or --output -")
	}
	if width := o.width(e); width > 0 && o.format == "text" && !o.folded {
		var result strings.Builder
		if err := render(&result); err != nil {
			return err
		}
		folded := report.Fold(result.String(), width)
		render = func(w io.Writer) error { _, err := io.WriteString(w, folded); return err }
	}
	var failed error // the result, not where it goes
	send := func(w io.Writer) error {
		h := &held{to: w, most: mostHeld, ascii: o.format == "json"}
		if err := render(h); err != nil && h.err == nil {
			failed = err
			return err
		}
		return h.end()
	}
	var err error
	if o.file != "" && o.file != "-" {
		err = putFile(o.file, send)
	} else if err = send(e.stdout); err != nil {
		err = fail(exitOutput, "stdout: %w", cause(err))
	}
	return cmp.Or(failed, err)
}

const (
	mostHeld  = 4 << 20
	blockSize = 64 << 10
)

// A held result is kept until there is more than the most of it, and written on from there.
type held struct {
	to    io.Writer
	most  int
	ascii bool // it is JSON: see asciiJSON

	kept  bytes.Buffer
	begun []byte // of a character whose end is not there yet
	err   error  // of writing
}

// Write fails where writing on did.
func (h *held) Write(p []byte) (int, error) {
	if h.err != nil {
		return 0, h.err
	}
	n := len(p)
	if h.ascii {
		if len(h.begun) > 0 {
			p = append(h.begun, p...)
		}
		whole := wholeRunes(p)
		h.begun = bytes.Clone(p[whole:])
		if p = p[:whole]; slices.ContainsFunc(p, func(c byte) bool { return c >= 0x7f }) { // DEL too, see asciiJSON
			p = []byte(asciiJSON(string(p)))
		}
	}
	h.add(p)
	return n, h.err
}

func (h *held) add(p []byte) {
	h.kept.Write(p)
	if h.kept.Len() > h.most {
		h.most = blockSize
		_, h.err = h.kept.WriteTo(h.to)
	}
}

// end writes what is left.
func (h *held) end() error {
	if h.err == nil {
		h.add([]byte(asciiJSON(string(h.begun))))
	}
	if h.err == nil {
		_, h.err = h.kept.WriteTo(h.to)
	}
	return h.err
}

// wholeRunes returns how many bytes of a text come before a character that it has the beginning of.
func wholeRunes(p []byte) int {
	for i := len(p) - 1; i >= max(len(p)-utf8.UTFMax, 0); i-- {
		if utf8.RuneStart(p[i]) {
			if utf8.FullRune(p[i:]) {
				break
			}
			return i
		}
	}
	return len(p)
}

// putFile is writeFile with the error that the program ends with.
func putFile(path string, write func(io.Writer) error) error {
	err := writeFile(path, write)
	if err == nil {
		return nil
	}
	if end, ok := errors.AsType[interruption](err); ok {
		return fail(exitSignal+int(end), "%s: ended by signal %d, nothing is written", quoteArg(path), int(end))
	}
	return fail(exitOutput, "%s: %w", quoteArg(path), cause(err))
}

// An interruption is the signal that came while a file was written.
type interruption syscall.Signal

// Error says which signal it was.
func (i interruption) Error() string { return fmt.Sprintf("ended by signal %d", int(i)) }

// asciiJSON writes JSON in ASCII. encoding/json leaves DEL, the control characters above it and those
// that turn the direction of text as they are; in a terminal they act. Outside of strings JSON has none of them.
func asciiJSON(s string) string {
	odd := func(r rune) bool { return r >= 0x7f }
	if strings.IndexFunc(s, odd) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if !odd(r) {
			b.WriteByte(byte(r))
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, "\\u%04x", unit)
		}
	}
	return b.String()
}

// grid writes a table in the form asked for; JSON is the caller's.
func (o *output) grid(w io.Writer, e *env, g *report.Grid) error {
	switch o.format {
	case "markdown":
		return g.Markdown(w, report.MarkdownLimit)
	case "csv":
		return g.CSV(w)
	}
	return g.Text(w, o.width(e))
}

// answer writes a result: as JSON, or as the table that lay makes of it.
func (o *output) answer(e *env, result any, lay func() *report.Grid) error {
	return o.write(e, func(w io.Writer) error {
		if o.format == "json" {
			return report.JSON(w, result)
		}
		return o.grid(w, e, lay())
	})
}

// cause takes an error of the file system apart: the path is said already.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}

// width returns how wide lines of the result may be: as COLUMNS says, or as the terminal is that stdout is. 0 means
// that there is no limit, as in a file or a pipe.
func (o *output) width(e *env) int {
	if o.file != "" && o.file != "-" {
		return 0
	}
	return columns(e, e.stdout)
}

// columns returns how many characters a line of a stream has room for, 0 where that is not known.
func columns(e *env, stream io.Writer) int {
	if n, err := strconv.Atoi(e.getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if f, ok := stream.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return 0
}

// writeFile replaces a file's content at once: a reader sees the old one or the new one,
// and so does somebody who looks after a crash. What is not a regular file, a pipe or a
// terminal for one, is written to directly.
func writeFile(path string, write func(io.Writer) error) error {
	target, err := linked(path)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0)
	switch st, err := os.Stat(target); {
	case err == nil && st.IsDir():
		return errors.New("is a directory")
	case err == nil && !st.Mode().IsRegular():
		return writeDirectly(target, write)
	case err == nil:
		mode = st.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	came := make(chan os.Signal, 1) // or ^C would leave the new file beside the old one
	notifyEnding(came)
	defer signal.Stop(came)
	f, err := createBeside(target)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	defer f.Close()
	if mode != 0 {
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	if err := write(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil { // before the rename, or a crash may leave an empty file
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	select {
	case s := <-came:
		return interruption(signalNumber(s))
	default:
	}
	return os.Rename(f.Name(), target)
}

// linked returns the file that a path stands for, which need not be there yet: a link stays a link, also one that
// leads nowhere.
func linked(path string) (string, error) {
	for range 40 { // as many links as Linux follows
		target, err := filepath.EvalSymlinks(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return target, err
		}
		if _, err := os.Stat(path); err == nil {
			return path, nil // a pipe behind /dev/stdout: its link does not say where it is
		}
		next, err := os.Readlink(path)
		if err != nil {
			return path, nil // no link: a new file
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(path), next)
		}
		path = next
	}
	return path, nil
}

// createBeside creates a new file in the target's folder, with the permissions that the
// target would get: os.CreateTemp would give it to its owner alone.
func createBeside(target string) (*os.File, error) {
	dir, base := filepath.Split(target)
	for try := 0; ; try++ {
		name := filepath.Join(dir, fmt.Sprintf(".%s.%d-%d.tmp", base, os.Getpid(), try))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil || !errors.Is(err, fs.ErrExist) || try == 100 {
			return f, err
		}
	}
}

func writeDirectly(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
