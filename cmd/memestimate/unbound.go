package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/report"
)

// Sizes that the hint about unbound dimensions proposes.
const (
	exampleBatch = 8
	exampleSize  = 128
)

// maxOpen is how many flags the hint about unbound dimensions has: a file may need thousands.
const maxOpen = 20

// completing returns the command line that gives the open dimensions sizes, the settings at hand included; "" where none is
// found that works. What a batch would bind is asked of package shape rather than guessed.
func (s *settings) completing(command string, in source, m *onnxload.Model, open []shape.Unbound) string {
	opt := s.shapeOptions()
	opt.Dims, opt.Inputs = maps.Clone(opt.Dims), maps.Clone(opt.Inputs)
	if opt.Dims == nil {
		opt.Dims = map[string]int64{}
	}
	if opt.Inputs == nil {
		opt.Inputs = map[string][]int64{}
	}
	if opt.Batch == 0 {
		opt.Batch = exampleBatch
		if left, ok := stillOpen(m, opt); ok {
			open = slices.DeleteFunc(slices.Clone(open), func(u shape.Unbound) bool { return !left[openKey(u)] })
		} else {
			opt.Batch = 0 // it means nothing to this model
		}
	}
	unnamed := map[string]bool{} // inputs with a dimension that has no name
	var flags []string
	for _, u := range open {
		if u.Name != "" {
			opt.Dims[u.Name] = exampleSize
			flags = append(flags, "--dim "+quoteArg(fmt.Sprintf("%s=%d", u.Name, exampleSize)))
		} else if len(u.Inputs) > 0 {
			unnamed[u.Inputs[0]] = true
		}
	}
	for _, x := range examples(m, opt, unnamed) {
		opt.Inputs[x.name] = x.dims
		flags = append(flags, inputFlag(x.name, x.dims))
	}
	// Where shapes of inputs are given these may have the batch in them already.
	try := opt
	if s.finds {
		try.Batch = exampleBatch + 1
	}
	if left, ok := stillOpen(m, try); !ok || left.wants(open) {
		opt.Batch = s.batch
		if left, ok = stillOpen(m, opt); !ok || left.wants(open) || s.finds {
			return ""
		}
	}

	args := []string{command, cmp.Or(in.all, hintArg(in.arg))}
	if opt.Batch != 0 && !s.finds {
		args = append(args, fmt.Sprintf("--batch %d", opt.Batch))
	}
	typed := cmp.Or(s.typed, s)
	for _, name := range slices.Sorted(maps.Keys(typed.dims)) {
		args = append(args, "--dim "+quoteArg(fmt.Sprintf("%s=%d", name, typed.dims[name])))
	}
	for _, name := range slices.Sorted(maps.Keys(typed.inputs)) {
		args = append(args, inputFlag(name, typed.inputs[name]))
	}
	args = append(args, otherFlags(typed.run.given)...)
	if more := len(flags) - maxOpen; more > 0 {
		args = append(args, flags[:maxOpen]...)
		return fmt.Sprintf("%s, and so for %s more, which memestimate shapes %s lists", strings.Join(args, " "), report.Count(int64(more)), hintArg(in.arg))
	}
	return strings.Join(append(args, flags...), " ") + in.after
}

// otherFlags returns what else the command line has but sizes of dimensions, as it would be typed.
func otherFlags(given *pflag.FlagSet) (args []string) {
	if given == nil {
		return nil
	}
	given.Visit(func(f *pflag.Flag) {
		if f.Name == "batch" || f.Name == "dim" || f.Name == "input" {
			return
		}
		values := []string{f.Value.String()}
		switch v := f.Value.(type) {
		case *listValue:
			values[0] = strings.Join(v.given, ",")
		case pflag.SliceValue:
			values = v.GetSlice()
		case *sizeValue, *limitValue:
			values[0] = strings.ReplaceAll(values[0], " ", "")
		}
		for _, v := range values {
			if f.NoOptDefVal != "" && (v == f.NoOptDefVal || v == "") {
				args = append(args, "--"+f.Name)
			} else {
				args = append(args, "--"+f.Name+"="+quoteArg(v))
			}
		}
	})
	return args
}

// An openDim tells one open dimension from the others.
type openDim struct {
	name, input string
	dim         int
}

func openKey(u shape.Unbound) openDim {
	if u.Name != "" || len(u.Inputs) == 0 {
		return openDim{name: u.Name}
	}
	return openDim{input: u.Inputs[0], dim: u.Dim}
}

// An openSet is the dimensions without a size.
type openSet map[openDim]bool

// wants reports whether one of these is still among them.
func (s openSet) wants(of []shape.Unbound) bool {
	return slices.ContainsFunc(of, func(u shape.Unbound) bool { return s[openKey(u)] })
}

// stillOpen returns the dimensions that these options leave without a size; false when they do not suit the model.
func stillOpen(m *onnxload.Model, opt shape.Options) (openSet, bool) {
	types, err := shape.Infer(m, opt)
	if err != nil {
		return nil, false
	}
	left := openSet{}
	for _, u := range types.Unbound {
		left[openKey(u)] = true
	}
	return left, true
}

func inputFlag(name string, dims []int64) string {
	text := "scalar"
	if len(dims) > 0 {
		sizes := make([]string, len(dims))
		for i, n := range dims {
			sizes[i] = strconv.FormatInt(n, 10)
		}
		text = strings.Join(sizes, "x")
	}
	return "--input " + quoteArg(name+"="+text)
}

// An inputShape is a shape for an input.
type inputShape struct {
	name string
	dims []int64
}

// examples returns shapes for the inputs of these names: what follows from the options, and examples for the rest.
func examples(m *onnxload.Model, opt shape.Options, names map[string]bool) (out []inputShape) {
	if len(names) == 0 {
		return nil
	}
	types, err := shape.Infer(m, opt)
	if err != nil {
		return nil // the sizes proposed contradict each other: the user knows better ones
	}
	batch := cmp.Or(opt.Batch, exampleBatch)
	for _, id := range m.Graph.Inputs {
		name, s := m.Values[id].Name, types.Type(id).Shape
		if !names[name] {
			continue
		}
		dims := []int64{batch, exampleSize}
		if s.Ranked {
			dims = make([]int64, len(s.Dims))
		}
		for i, d := range s.Dims {
			n, ok := d.Int()
			switch {
			case ok:
				dims[i] = n
			case i == 0:
				dims[i] = batch
			default:
				dims[i] = exampleSize
			}
		}
		out = append(out, inputShape{name, dims})
	}
	return out
}
