// Package budget reads what a repository allows its models to take, and holds estimates against it: limits of single
// sizes, and how much each may grow from one revision to the next. docs/pull-requests.md describes the file.
package budget

import (
	"errors"
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/report"
)

// Name is what a budget file is called.
const Name = "memestimate.yaml"

// MaxSize is the largest budget file that is read, in bytes.
const MaxSize = 1 << 20

// A File is a budget file.
type File struct {
	Path   string // as the user gave it
	Base   Value  // the git revision that growth is measured from; without a text it is not said
	Models []Model
}

// A Model is one entry of a file's models: some files and what is asked of them.
type Model struct {
	Line       int
	Paths      []Value // files, globs or built-in names
	Exclude    Globs
	New        Globs      // models that the base may lack
	LowerBound bool       // operators that are not modelled are accepted
	Settings   []Settings // one at least
	Limits     Limits
}

// Excludes reports whether an entry says that a file is left out.
func (f *File) Excludes(name string) bool {
	return slices.ContainsFunc(f.Models, func(m Model) bool { return m.Exclude.Match(name) })
}

// Globs are patterns of names.
type Globs []Value

// Match reports whether a name matches one of them.
func (all Globs) Match(name string) bool {
	return slices.ContainsFunc(all, func(g Value) bool { return Matches(g.Text, name) })
}

// A Value is a text of the file, with its line.
type Value struct {
	Text string
	Line int
}

// Settings are the flags that a model is estimated with. Those with several values make a case
// of each combination.
type Settings []Setting

// A Setting is a flag of memestimate and its values.
type Setting struct {
	Name   string
	Values []string
	Line   int
}

// Limits are what an estimate must keep.
type Limits struct {
	Sizes  []SizeLimit
	Growth *GrowthLimit // of the device memory as predicted
	Fits   []Value      // names of GPUs

	Confidence estimate.Confidence // with which Sizes of the device memory and Fits must hold
}

// A SizeLimit is the most that a total of the estimate may be.
type SizeLimit struct {
	Total string // diff.Device and the like
	Bytes int64
	Line  int
}

// A GrowthLimit is how much the device memory may grow.
type GrowthLimit struct {
	Growth
	Line int
}

// An Error is a place in a budget file, and what is wrong there.
type Error struct {
	File string
	Line int
	Text string

	Key   string   // a key that is not known; "" when it is something else
	Known []string // those that are, in its place

	cause error // what a value's own reader says; nil when there is none
}

// Unwrap returns what a value's own reader says, which may have a hint.
func (e *Error) Unwrap() error { return e.cause }

// Error returns "FILE:LINE: what is wrong".
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", report.QuoteArg(e.File), e.Text)
	}
	return fmt.Sprintf("%s:%d: %s", report.QuoteArg(e.File), e.Line, e.Text)
}

// At returns an error at a line of the file.
func (f *File) At(line int, format string, args ...any) *Error {
	return errorAt(f.Path, line, format, args...)
}

func errorAt(path string, line int, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{File: path, Line: line, Text: err.Error(), cause: errors.Unwrap(err)}
}
