// Memestimate tells how much GPU memory a PyTorch training step or inference
// takes, from the ONNX graph of the model alone.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/spelling"
)

// Exit codes. The command run by "memestimate run" sets its own beside these.
const (
	exitOK     = 0
	exitNo     = 1  // the answer is no: it does not fit, it is over the budget
	exitUsage  = 2  // the command line is wrong
	exitInput  = 3  // the input is bad, or not supported
	exitDevice = 4  // a GPU or its driver cannot be used
	exitOutput = 5  // the result could not be written
	exitBug    = 70 // a bug of ours (EX_SOFTWARE)
)

// An env is what the program touches of the world around it. Commands that
// wait arrange for signals themselves; all others leave them to the system.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	terminal       bool   // stdout is one
	stdinName      string // what standard input is called, where that is known
	getenv         func(string) string
	help           helpWriter // stdout for cobra
	helpAll        bool       // --help-all: help with all flags
	unweighed      bool       // an answer is wanted before what its guesses weigh and other settings take
	now            func() time.Time
	heap           *heap // nil where others use the process too
}

// time returns the time; a test may say another.
func (e *env) time() time.Time {
	if e.now != nil {
		return e.now()
	}
	return time.Now()
}

// An exitError is an error with the code that the process ends with. With
// a nil err nothing is printed: the result on stdout said it all.
type exitError struct {
	code int
	err  error
	hint string // one more line for the reader; may be empty
}

// Error returns the text of the error, without the hint.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns the error that e carries.
func (e *exitError) Unwrap() error { return e.err }

// Hint returns the hint, or that of the error that e carries.
func (e *exitError) Hint() string { return cmp.Or(e.hint, hintOf(e.err)) }

// fail returns an error that ends the process with code.
func fail(code int, format string, args ...any) *exitError {
	return &exitError{code: code, err: fmt.Errorf(format, args...)}
}

// usagef returns an error about the command line.
func usagef(format string, args ...any) *exitError { return fail(exitUsage, format, args...) }

// withHint adds a line of advice to e.
func (e *exitError) withHint(format string, args ...any) *exitError {
	e.hint = fmt.Sprintf(format, args...)
	return e
}

// A closedFile is a standard stream that was closed when the program began: nothing can be written to it, and a result
// that nobody gets is no success.
type closedFile struct{}

// Write fails.
func (closedFile) Write([]byte) (int, error) { return 0, os.ErrClosed }

// run is the whole program: it returns the exit code. Everything that goes wrong
// is told here, in one place and one form.
func run(ctx context.Context, e *env, args []string) (code int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(e.stderr, "memestimate: internal error, please report it with this line and the model: %s: %v at %s\n",
				versionLine(), p, estimate.PanicPlace())
			code = exitBug
		}
	}()
	root, args := commandFor(e, args)
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		// Only now: cobra keeps what is registered for as long as the process lives, and the commands with it.
		for _, c := range append(root.Commands(), root) {
			completeNames(c)
		}
	}
	root.SetArgs(e.helpArgs(args))
	err := root.ExecuteContext(ctx)
	if e.help.err != nil {
		err = e.help.err
	}
	if wantsJSON(args) {
		return tellJSON(e.stderr, err)
	}
	return tell(e.stderr, err)
}

// helpArgs takes --help-all, which every command has, for --help with all there is.
func (e *env) helpArgs(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		if a == "--" {
			break
		}
		if strings.HasPrefix(a, "--") && spelling.Key(a) == "--help-all" {
			out[i], e.helpAll = "--help", true
		}
	}
	return out
}

// tell prints err, and its hint when it has one, and returns its exit code.
// Errors without a code are about the input.
func tell(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	code, hint := codeOf(err), hintOf(err)
	if x, ok := errors.AsType[*exitError](err); ok && x.err == nil {
		return code
	}
	io.WriteString(w, onScreen(w, fmt.Sprintf("memestimate: %s\n", oneLine(err.Error()))))
	if hint != "" {
		tellHint(w, hint)
	}
	return code
}

// tellHint prints a line of advice.
func tellHint(w io.Writer, hint string) {
	io.WriteString(w, onScreen(w, fmt.Sprintf("memestimate: hint: %s\n", oneLine(hint))))
}

// onScreen breaks lines between words where w is a terminal; a line stays one in a pipe and in a file.
func onScreen(w io.Writer, text string) string {
	f, ok := w.(*os.File)
	if !ok || !isTerminal(f) {
		return text
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return text
	}
	return report.Fold(text, width)
}

// codeOf returns the exit code that an error means: errors without one are about the input.
func codeOf(err error) int {
	if x, ok := errors.AsType[*exitError](err); ok {
		return x.code
	}
	return exitInput
}

// hintOf returns the hint that goes with an error, or "".
func hintOf(err error) string {
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		return hinted.Hint()
	}
	return ""
}

// oneLine keeps a message on one line: see report.OneLine.
func oneLine(s string) string { return report.OneLine(s) }

// A heap is what this process may take for the models that it reads. A nil heap leaves everything to Go.
type heap struct {
	models atomic.Int64 // bytes of the files read so far
}

// test/catalogue.md promises 64 MB and 24 bytes for each byte of a file. The rest is the program's own pages, and what
// is made while garbage is collected.
const (
	heapBase   = 40_000_000
	heapFactor = 22
)

// newHeap has the garbage collector begin at 40 MB rather than 4, and continue as usual: most runs end before. A user's
// GOGC and GOMEMLIMIT stay.
func newHeap() *heap {
	if os.Getenv("GOGC") == "" {
		usual := debug.SetGCPercent(1000)
		type sentinel struct{ _ *sentinel } // with a pointer, so that it has an allocation of its own
		runtime.AddCleanup(new(sentinel), func(percent int) { debug.SetGCPercent(percent) }, usual)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return new(heap)
}

// hold has garbage collected more often rather than more memory taken than is promised for a model of so many bytes,
// and those before it.
func (h *heap) hold(bytes int64) {
	if h != nil {
		debug.SetMemoryLimit(heapBase + heapFactor*h.models.Add(min(bytes, 1<<40)))
	}
}
