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
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/spelling"
)

// A parsed is a flag whose value is read from a text.
type parsed[T any] struct {
	to    *T
	kind  string // what the flag takes
	read  func(string) (T, error)
	show  func(T) string
	names func() []string // that it takes, where they are listed; else nil
}

// Type says what the flag takes.
func (v *parsed[T]) Type() string { return v.kind }

// String returns the value.
func (v *parsed[T]) String() string { return v.show(*v.to) }

// Set reads a value.
func (v *parsed[T]) Set(s string) error {
	value, err := v.read(s)
	if err == nil {
		*v.to = value
	}
	return err
}

// unlessZero shows a number that is set.
func unlessZero[T int | int64](n T) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}

// size reads a dimension given on the command line.
func size(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a size, want a whole number from 1", s)
	}
	return n, nil
}

// batchFlag takes a size.
func batchFlag(to *int64) *parsed[int64] {
	return &parsed[int64]{to: to, kind: "N", read: size, show: unlessZero[int64]}
}

// sizesFlag takes a list of sizes: 1024,2048.
func sizesFlag(to *[]int64) *parsed[[]int64] {
	return &parsed[[]int64]{to: to, kind: "N", read: func(s string) (out []int64, err error) {
		for word := range strings.SplitSeq(s, ",") {
			n, err := size(word)
			if err != nil {
				return nil, err
			}
			out = append(out, n)
		}
		return out, nil
	}, show: func(all []int64) string { return joined(all, ",") }}
}

// joined writes sizes with a text between them.
func joined(sizes []int64, between string) string {
	words := make([]string, len(sizes))
	for i, n := range sizes {
		words[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(words, between)
}

// countFlag takes a whole number from 1.
func countFlag(to *int) *parsed[int] {
	return &parsed[int]{to: to, kind: "N", read: func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 1024 {
			return 0, fmt.Errorf("%q is not a number of passes, want 1 to 1024", s)
		}
		return n, nil
	}, show: unlessZero[int]}
}

// bytesFlag takes a size of memory.
func bytesFlag(to *uint64) *parsed[uint64] {
	return &parsed[uint64]{to: to, kind: "SIZE", read: func(s string) (uint64, error) {
		n, err := spelling.Size(s)
		return uint64(n), err
	}, show: func(n uint64) string {
		if n == 0 {
			return ""
		}
		return report.Size(int64(n))
	}}
}

// limitFlag takes a size of memory to keep within. None is no limit that one could mean.
func limitFlag(to *uint64) *parsed[uint64] {
	v := bytesFlag(to)
	read := v.read
	v.read = func(s string) (uint64, error) {
		n, err := read(s)
		if err == nil && n == 0 {
			return 0, fmt.Errorf("%q leaves no memory to ask for, want a size such as 24GiB", s)
		}
		return n, err
	}
	return v
}

// namedFlag gathers NAME=VALUE in a map.
func namedFlag[T any](to *map[string]T, example string, read func(name, text string) (T, error)) *parsed[map[string]T] {
	return &parsed[map[string]T]{to: to, show: func(map[string]T) string { return "" }, read: func(s string) (map[string]T,
		error) {
		name, text, err := assignment(s, example)
		if err != nil {
			return nil, err
		}
		value, err := read(name, text)
		if err != nil {
			return nil, err
		}
		if old, ok := (*to)[name]; ok && fmt.Sprint(old) != fmt.Sprint(value) {
			return nil, fmt.Errorf("%q has two sizes, %v and %v", name, old, value)
		}
		out := map[string]T{name: value}
		maps.Copy(out, *to)
		return out, nil
	}}
}

// dimsFlag gathers sizes of dimensions.
func dimsFlag(to *map[string]int64) *parsed[map[string]int64] {
	v := namedFlag(to, "N", func(_, text string) (int64, error) { return size(text) })
	v.kind = "NAME=N"
	return v
}

// inputsFlag gathers shapes of inputs.
func inputsFlag(to *map[string][]int64) *parsed[map[string][]int64] {
	v := namedFlag(to, "8x3x224x224", func(_, text string) ([]int64, error) {
		dims := []int64{}
		if text == "scalar" {
			return dims, nil
		}
		for part := range strings.SplitSeq(text, "x") {
			n, err := strconv.ParseInt(part, 10, 64)
			if err != nil || n < 0 {
				return nil, fmt.Errorf("%q is not a shape, want sizes joined by x as in 8x3x224x224", text)
			}
			dims = append(dims, n)
		}
		return dims, nil
	})
	v.kind = "NAME=SHAPE"
	return v
}

// assignment splits NAME=VALUE at the last =, for names may have one.
func assignment(s, example string) (name, value string, err error) {
	i := strings.LastIndexByte(s, '=')
	if i <= 0 || i == len(s)-1 {
		return "", "", fmt.Errorf("%q is not NAME=%s", s, example)
	}
	return s[:i], s[i+1:], nil
}

// assumeFlag gathers the names of guesses that are not made.
func assumeFlag(to *map[string]bool) *parsed[map[string]bool] {
	v := namedFlag(to, "no", func(name, word string) (bool, error) {
		if known := estimate.GuessNames(); !slices.Contains(known, name) {
			return false, unknownName(name, known)
		}
		if word != "no" {
			return false, fmt.Errorf("%q: want no: every guess is made unless it is switched off", word)
		}
		return true, nil
	})
	v.kind = "NAME=no"
	return v
}

// textFlag takes a text that another package understands; check returns it as it is kept.
func textFlag(to *string, kind string, check func(string) (string, error)) *parsed[string] {
	return &parsed[string]{to: to, kind: kind, read: check, show: func(s string) string { return s }}
}

// oneOf is a flag that takes one of some names, or other words for them: those of a setting with this key.
func oneOf(key string, to *string, names []string) *parsed[string] {
	v := textFlag(to, "NAME", func(s string) (string, error) {
		name, err := spelling.Value(key, s)
		if err == nil && !slices.Contains(names, name) {
			err = unknownName(s, names)
		}
		return name, err
	})
	v.names = func() []string { return names }
	return v
}

// patternFlag takes a regular expression.
func patternFlag(to *string) *parsed[string] {
	return textFlag(to, "REGEX", func(s string) (string, error) {
		if s == "" {
			return "", errors.New("an empty regular expression matches everything, want one that says what")
		}
		return s, program.CheckPattern(s)
	})
}

// loraFlag takes settings of LoRA.
func loraFlag(to *string) *parsed[string] {
	return textFlag(to, "SETTINGS", func(s string) (string, error) {
		if s == "" {
			return "", errors.New("no settings, want some such as r=16,targets='q_proj|v_proj'")
		}
		_, err := program.ParseLoRA(s)
		return s, err
	})
}

// confFlag takes settings of the allocator.
func confFlag(to *string) *parsed[string] {
	return textFlag(to, "CONF", func(s string) (string, error) {
		_, err := caching.ParseOptions(s)
		return s, err
	})
}

// optimizerFlag takes an optimizer.
func optimizerFlag(to *string) *parsed[string] {
	v := textFlag(to, "NAME", func(typed string) (string, error) {
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
	})
	v.names = func() []string { return torch.Optimizers }
	return v
}

// gpuFlag takes a known GPU, or "auto".
func gpuFlag(to *string) *parsed[string] {
	v := textFlag(to, "NAME", func(s string) (string, error) {
		if strings.EqualFold(s, "auto") {
			return "auto", nil
		}
		g, err := gpu.Find(s)
		if _, several := errors.AsType[*spelling.Error](err); several {
			return "", err
		}
		if err != nil || s == "" { // no other name is proposed: a card of nearly the same name may have more memory
			return "", fail(exitInput, "want auto, a size such as 11GiB, or one that memestimate gpus lists").
				withHint("its memory is enough: --gpu 11GiB")
		}
		return g.ID, nil
	})
	v.names = gpuNames
	return v
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
var precisions = texts(torch.Precisions)

// confidences are the names that --confidence takes.
var confidences = texts(estimate.Confidences())

func texts[T ~string](values []T) (out []string) {
	for _, v := range values {
		out = append(out, string(v))
	}
	return out
}

// confidenceFlag is the flag that says which figure of an estimate is held against a size.
func confidenceFlag(to *estimate.Confidence, use string) flagRow {
	*to = estimate.Safe
	return flagRow{"confidence", 0, oneOf("", (*string)(to), confidences),
		use + ": " + strings.Join(confidences, ", ") + " (fewer than two runs in a hundred, three of trainings from " +
			"default exports, take more than safe, one in twenty more than likely)"}
}

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
		v, ok := f.Value.(*parsed[string])
		if !ok || v.names == nil {
			return
		}
		// That a flag has completions already is the only error, and no harm.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(v.names(), cobra.ShellCompDirectiveNoFileComp))
	})
}
