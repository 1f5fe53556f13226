package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/report"
)

// maxOpen is how many flags the hint about unbound dimensions has: a file may need thousands.
const maxOpen = 20

// A proposal gives sizes to dimensions that have none.
type proposal struct {
	batch int64 // 0: none
	size  int64 // of every dimension that the batch does not bind
}

// proposals are tried in this order; most models take the first. Products of many dimensions want small
// ones, and some graphs are right for a batch of 1 alone.
var proposals = []proposal{{8, 128}, {0, 128}, {1, 128}, {8, 224}, {1, 224}, {8, 8}, {1, 8}, {0, 8}, {1, 1}, {0, 1}}

// completing returns the command line that gives the open dimensions sizes, the settings at hand included; "" where
// none is found that works. Whether one works is found out by asking the question with it.
func (s *settings) completing(command string, in source, m *onnxload.Model, open []shape.Unbound) string {
	for _, p := range proposals {
		if s.batch != 0 {
			if p.batch == 0 {
				continue
			}
			p.batch = s.batch
		}
		if opt, flags, ok := s.propose(p, m, open); ok {
			return s.commandWith(command, in, opt.Batch, flags)
		}
	}
	return ""
}

// propose returns the options that p makes of those at hand and the flags that say so, and whether they answer the
// question.
func (s *settings) propose(p proposal, m *onnxload.Model, open []shape.Unbound) (opt shape.Options, flags []string,
	ok bool) {
	opt = shape.Options{Batch: p.batch, Dims: map[string]int64{}, Inputs: map[string][]int64{}}
	maps.Copy(opt.Dims, s.dims)
	maps.Copy(opt.Inputs, s.inputs)
	left, ok := stillOpen(m, opt)
	if !ok {
		return opt, nil, false // a batch means nothing to this model
	}
	unnamed := map[string]bool{} // inputs with a dimension that has no name
	for _, u := range open {
		switch {
		case !left[openKey(u)]:
		case u.Name != "":
			opt.Dims[u.Name] = p.size
			flags = append(flags, "--dim "+quoteArg(fmt.Sprintf("%s=%d", u.Name, p.size)))
		default:
			unnamed[u.Inputs[0]] = true
		}
	}
	flags = append(flags, examples(m, opt, p, unnamed)...)
	if !s.finds {
		return opt, flags, answers(m, opt)
	}
	// What finds a batch must be free to choose it.
	if len(unnamed) > 0 || p.batch == 0 || !answers(m, opt) {
		return opt, nil, false
	}
	opt.Batch++
	return opt, flags, answers(m, opt)
}

// answers reports whether these options leave nothing open and suit the model.
func answers(m *onnxload.Model, opt shape.Options) bool {
	_, err := estimate.Run(m, estimate.Options{Batch: opt.Batch, Dims: opt.Dims, Inputs: opt.Inputs})
	return err == nil
}

// commandWith returns the command line at hand with this batch and these flags.
func (s *settings) commandWith(command string, in source, batch int64, flags []string) string {
	args := []string{command, cmp.Or(in.all, hintArg(in.arg))}
	if batch != 0 && !s.finds {
		args = append(args, fmt.Sprintf("--batch %d", batch))
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
		return fmt.Sprintf("%s, and so for %s more", strings.Join(args, " "), report.Count(int64(more)))
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
		case *parsed[uint64]:
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
	if u.Name != "" {
		return openDim{name: u.Name}
	}
	return openDim{input: u.Inputs[0], dim: u.Dim}
}

// stillOpen returns the dimensions that these options leave without a size; false when they do not suit the model.
func stillOpen(m *onnxload.Model, opt shape.Options) (map[openDim]bool, bool) {
	types, err := shape.Infer(m, opt)
	if err != nil {
		return nil, false
	}
	left := map[openDim]bool{}
	for _, u := range types.Unbound {
		left[openKey(u)] = true
	}
	return left, true
}

func inputFlag(name string, dims []int64) string {
	text := "scalar"
	if len(dims) > 0 {
		text = joined(dims, "x")
	}
	return "--input " + quoteArg(name+"="+text)
}

// examples sets shapes for the inputs of these names, and returns the flags that say so: what follows from the options,
// and examples for the rest.
func examples(m *onnxload.Model, opt shape.Options, p proposal, names map[string]bool) (flags []string) {
	if len(names) == 0 {
		return nil
	}
	types, err := shape.Infer(m, opt)
	if err != nil {
		return nil // the sizes proposed contradict each other: the user knows better ones
	}
	batch := cmp.Or(p.batch, 8)
	for _, id := range m.Graph.Inputs {
		name, s := m.Values[id].Name, types.Type(id).Shape
		if !names[name] {
			continue
		}
		dims := []int64{batch, p.size}
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
				dims[i] = p.size
			}
		}
		opt.Inputs[name] = dims
		flags = append(flags, inputFlag(name, dims))
	}
	return flags
}
