package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/spelling"
)

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

// A sizesValue is a list of sizes: 1024,2048.
type sizesValue []int64

func (v *sizesValue) Set(s string) error {
	*v = nil
	for word := range strings.SplitSeq(s, ",") {
		n, err := size(word)
		if err != nil {
			return err
		}
		*v = append(*v, n)
	}
	return nil
}

func (v *sizesValue) Type() string { return "N" }

func (v *sizesValue) String() string {
	words := make([]string, len(*v))
	for i, n := range *v {
		words[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(words, ",")
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

// An assumeValue gathers the values of --assume: the names of guesses that are not made.
type assumeValue map[string]bool

func (v *assumeValue) Type() string   { return "NAME=no" }
func (v *assumeValue) String() string { return "" }
func (v *assumeValue) Set(s string) error {
	name, word, err := assignment(s, "no")
	if err != nil {
		return err
	}
	if known := estimate.GuessNames(); !slices.Contains(known, name) {
		return unknownName(name, known)
	}
	if word != "no" {
		return fmt.Errorf("%q: want no: every guess is made unless it is switched off", word)
	}
	if *v == nil {
		*v = assumeValue{}
	}
	(*v)[name] = true
	return nil
}

// names are the guesses that are not made.
func (v assumeValue) names() []string { return slices.Sorted(maps.Keys(v)) }

// A oneOf is a flag that takes one of some names, or other words for them: those of a setting with this key.
type oneOf struct {
	key   string
	value *string
	names []string
}

func (v *oneOf) String() string { return *v.value }
func (v *oneOf) Type() string   { return "NAME" }
func (v *oneOf) Set(s string) error {
	name, err := spelling.Value(v.key, s)
	if err != nil {
		return err
	}
	if !slices.Contains(v.names, name) {
		return unknownName(s, v.names)
	}
	*v.value = name
	return nil
}

// A countValue is a whole number from 1.
type countValue int

func (v *countValue) String() string {
	if *v == 0 {
		return ""
	}
	return strconv.Itoa(int(*v))
}
func (v *countValue) Type() string { return "N" }
func (v *countValue) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 1024 {
		return fmt.Errorf("%q is not a number of passes, want 1 to 1024", s)
	}
	*v = countValue(n)
	return nil
}

// A checkedText is a flag whose value another package understands.
type checkedText struct {
	value *string
	kind  string
	check func(string) (string, error) // returns the value as it is kept
	names func() []string              // for completion; may be nil
}

// String returns the value.
func (v *checkedText) String() string { return *v.value }

// Type says what the flag takes.
func (v *checkedText) Type() string { return v.kind }

// Set checks a value.
func (v *checkedText) Set(s string) error {
	kept, err := v.check(s)
	if err == nil {
		*v.value = kept
	}
	return err
}

// patternValue is a flag that takes a regular expression.
func patternValue(value *string) *checkedText {
	return &checkedText{value: value, kind: "REGEX", check: func(s string) (string, error) {
		if s == "" {
			return "", errors.New("an empty regular expression matches everything, want one that says what")
		}
		return s, program.CheckPattern(s)
	}}
}

// loraValue is a flag that takes settings of LoRA.
func loraValue(value *string) *checkedText {
	return &checkedText{value: value, kind: "SETTINGS", check: func(s string) (string, error) {
		if s == "" {
			return "", errors.New("no settings, want some such as r=16,targets='q_proj|v_proj'")
		}
		_, err := program.ParseLoRA(s)
		return s, err
	}}
}

// confValue is a flag that takes settings of the allocator.
func confValue(value *string) *checkedText {
	return &checkedText{value: value, kind: "CONF", check: func(s string) (string, error) {
		_, err := caching.ParseOptions(s)
		return s, err
	}}
}

// optimizerValue is a flag that takes an optimizer.
func optimizerValue(value *string) *checkedText {
	names := func() []string { return torch.Optimizers }
	return &checkedText{value: value, kind: "NAME", names: names, check: func(typed string) (string, error) {
		s, err := spelling.Optimizer(typed)
		if err != nil {
			return "", err
		}
		if s == "" || torch.CheckOptimizer(s) != nil {
			if base, _, _ := strings.Cut(s, "-"); slices.Contains(torch.Optimizers, base) && base != s {
				return "", torch.CheckOptimizer(s)
			}
			return "", unknownName(s, plainNames(torch.Optimizers))
		}
		return s, nil
	}}
}

// gpuValue is a flag that takes a known GPU, or "auto".
func gpuValue(value *string) *checkedText {
	return &checkedText{value: value, kind: "NAME", names: gpuNames, check: func(s string) (string, error) {
		if strings.EqualFold(s, "auto") {
			return "auto", nil
		}
		g, err := gpu.Find(s)
		var meant *spelling.Error
		if errors.As(err, &meant) { // several
			return "", err
		}
		if err != nil || s == "" {
			return "", unknownGPU()
		}
		return g.ID, nil
	}}
}

// unknownGPU says which GPUs there are. No other name is proposed: a card of nearly the same name may have more memory.
func unknownGPU() error {
	return &nameError{text: "want auto, a size such as 11GiB, or one that memestimate gpus lists",
		other: "its memory is enough: --gpu 11GiB"}
}

// gpuNames are the names that --gpu takes.
func gpuNames() []string {
	names := []string{"auto"}
	for _, g := range gpu.Known() {
		names = append(names, g.ID)
	}
	return names
}

// precisions are the names that --precision takes.
var precisions = func() (names []string) {
	for _, p := range torch.Precisions {
		names = append(names, string(p))
	}
	return names
}()

// plainNames leaves out the names that are another one with a setting, which has a hyphen.
func plainNames(names []string) (out []string) {
	for _, n := range names {
		base, _, ok := strings.Cut(n, "-")
		if !ok || !slices.Contains(names, base) {
			out = append(out, n)
		}
	}
	return out
}

// completeNames offers the names that a command's flags take.
func completeNames(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		var names []string
		switch v := f.Value.(type) {
		case *oneOf:
			names = v.names
		case *checkedText:
			if v.names != nil {
				names = v.names()
			}
		}
		if names == nil {
			return
		}
		// That a flag has completions already is the only error, and no harm.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	})
}
