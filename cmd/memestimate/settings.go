package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/shape"
)

// Settings are the flags that describe a model and its use. They are spelt here,
// once, for all commands that take a MODEL.
type settings struct {
	batch  int64
	dims   map[string]int64
	inputs map[string][]int64
	assume assumeValue
	strict bool
	finds  bool      // the command finds the batch itself
	typed  *settings // those on the command line, where these are a part of them; nil where they are all
	run    stepFlags
}

// modelFlags adds the flags about a model that hold however it is run.
func (s *settings) modelFlags(fs *pflag.FlagSet) {
	fs.VarP((*batchValue)(&s.batch), "batch", "b",
		"size of the batch: the inputs' leading symbolic dimension, whatever its name")
	fs.Var((*dimsValue)(&s.dims), "dim", "size of a symbolic dimension, as NAME=N; may be given again")
	fs.Var((*inputsValue)(&s.inputs), "input", "shape of an input, as NAME=8x3x224x224; may be given again")
	fs.Var(&s.assume, "assume",
		"decide a guess that the report lists, as NAME=yes or NAME=no; may be given again")
	fs.BoolVar(&s.strict, "strict", false, "fail when an operator is not modelled, rather than answer with a lower bound")
}

// flags adds all flags about a model.
func (s *settings) flags(fs *pflag.FlagSet) {
	s.modelFlags(fs)
	s.run.flags(fs)
}

// options returns the settings as the library takes them.
func (s *settings) options(in source) estimate.Options {
	return estimate.Options{Name: in.name, BuiltIn: in.builtIn(), Batch: s.batch, Dims: s.dims, Inputs: s.inputs,
		Prompt: int64(s.run.prompt), Strict: s.strict, With: s.assume.names(true), Without: s.assume.names(false)}
}

func (s *settings) shapeOptions() shape.Options {
	return shape.Options{Batch: s.batch, Dims: s.dims, Inputs: s.inputs}
}

// size reads a dimension given on the command line.
func size(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a size, want a whole number from 1", s)
	}
	return n, nil
}

// A batchValue is the value of --batch.
type batchValue int64

func (v *batchValue) Set(s string) error {
	n, err := size(s)
	*v = batchValue(n)
	return err
}

func (v *batchValue) Type() string { return "N" }

func (v *batchValue) String() string {
	if *v == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*v), 10)
}

// A dimsValue gathers the values of --dim.
type dimsValue map[string]int64

func (v *dimsValue) Set(s string) error {
	name, number, err := assignment(s, "N")
	if err != nil {
		return err
	}
	n, err := size(number)
	if err != nil {
		return err
	}
	if old, ok := (*v)[name]; ok && old != n {
		return fmt.Errorf("%q has two sizes, %d and %d", name, old, n)
	}
	if *v == nil {
		*v = dimsValue{}
	}
	(*v)[name] = n
	return nil
}

func (v *dimsValue) Type() string { return "NAME=N" }

func (v *dimsValue) String() string { return "" }

// An inputsValue gathers the values of --input.
type inputsValue map[string][]int64

func (v *inputsValue) Set(s string) error {
	name, text, err := assignment(s, "8x3x224x224")
	if err != nil {
		return err
	}
	dims := []int64{}
	if text != "scalar" {
		for part := range strings.SplitSeq(text, "x") {
			n, err := strconv.ParseInt(part, 10, 64)
			if err != nil || n < 0 {
				return fmt.Errorf("%q is not a shape, want sizes joined by x as in 8x3x224x224", text)
			}
			dims = append(dims, n)
		}
	}
	if old, ok := (*v)[name]; ok && !slices.Equal(old, dims) {
		return fmt.Errorf("%q has two shapes", name)
	}
	if *v == nil {
		*v = inputsValue{}
	}
	(*v)[name] = dims
	return nil
}

func (v *inputsValue) Type() string { return "NAME=SHAPE" }

func (v *inputsValue) String() string { return "" }

// assignment splits NAME=VALUE at the last =, for names may have one.
func assignment(s, example string) (name, value string, err error) {
	i := strings.LastIndexByte(s, '=')
	if i <= 0 || i == len(s)-1 {
		return "", "", fmt.Errorf("%q is not NAME=%s", s, example)
	}
	return s[:i], s[i+1:], nil
}
