package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/spelling"
)

// axes are the flags of a matrix, in the order in which its cases are labelled.
var axes = []string{"batch", "mode", "precision", "optimizer", "gpu"}

// maxCases bounds a matrix: each case is an estimate.
const maxCases = 256

// A matrix is settings of which some have several values: every combination is a case.
type matrix struct {
	settings
	lists []*listValue
}

// flags adds the flags about a model; those of axes take lists.
func (m *matrix) flags(fs *pflag.FlagSet) {
	m.settings.flags(fs)
	for _, name := range axes {
		f := fs.Lookup(name)
		l := &listValue{Value: f.Value, name: name}
		f.Value = l
		f.Usage += "; several with commas between"
		m.lists = append(m.lists, l)
	}
}

// A listValue makes a flag take several values with commas between, each once. They are checked at once, and
// set one by one later.
type listValue struct {
	pflag.Value
	name  string
	given []string
}

// Set takes the values; the flag keeps the first of them.
func (l *listValue) Set(s string) error {
	l.given = nil
	for _, v := range spelling.List(s) {
		if err := l.Value.Set(v); err != nil {
			return err
		}
		if v = l.Value.String(); !slices.Contains(l.given, v) { // as the flag writes it: 08 is 8
			l.given = append(l.given, v)
		}
	}
	return l.Value.Set(l.given[0])
}

// Type says what the flag takes.
func (l *listValue) Type() string { return l.Value.Type() + ",..." }

// cases is how many combinations of the values there are, at most one more than maxCases.
func (m *matrix) cases() int {
	n := 1
	for _, l := range m.lists {
		n = min(n*max(len(l.given), 1), maxCases+1)
	}
	return n
}

// each calls use for every combination of the values, with the settings set to it. The label has the values of
// the flags that were given several, or with full of all that were given.
func (m *matrix) each(full bool, use func(label string) error) error {
	n := m.cases()
	if n > maxCases {
		return usagef("more than %d combinations of settings", maxCases)
	}
	for i := range n {
		var label []string
		rest := n
		for _, l := range m.lists {
			if len(l.given) == 0 {
				continue
			}
			rest /= len(l.given)
			v := l.given[i/rest%len(l.given)]
			if err := l.Value.Set(v); err != nil {
				return err
			}
			if full || len(l.given) > 1 {
				if l.name == "batch" {
					v = "batch " + v
				}
				label = append(label, v)
			}
		}
		if full {
			plan := m.run.step.Plan
			plan.NoReshard = !m.run.reshard
			label = append(label, plan.Words()...)
		}
		if err := use(strings.Join(label, ", ")); err != nil {
			return err
		}
	}
	return nil
}

// with calls use with some settings changed, and then puts them back. Each change is NAME=VALUE, where NAME is
// a flag of fs.
func (m *matrix) with(fs *pflag.FlagSet, changes []string, use func() error) error {
	saved := m.settings
	defer func() { m.settings = saved }()
	m.dims, m.inputs = maps.Clone(m.dims), maps.Clone(m.inputs) // reports hold the old ones
	for _, c := range changes {
		name, value, ok := strings.Cut(c, "=")
		f := fs.Lookup(name)
		if !ok || f == nil {
			meant := ""
			if ok {
				meant = nearest(name, flagNames(fs))
			}
			return usagef("--base %q is not NAME=VALUE with the name of a flag about the model, as in optimizer=sgd",
				c).withHint("%s", didYouMean(meant))
		}
		v := f.Value
		if of, _, err := assignment(value, ""); err == nil { // another size takes the place of the first
			delete(m.dims, of)
			delete(m.inputs, of)
		}
		if l, ok := v.(*listValue); ok {
			v = l.Value
		}
		if err := v.Set(value); err != nil {
			return usagef("--base %s: %w", quoteArg(c), err)
		}
	}
	return use()
}

// An opened model is read once and estimated under several settings.
type opened struct {
	in    source
	m     *onnxload.Model            // nil where it is a recording
	rec   *recording.Recording       // nil where it is a model
	bound map[string]*estimate.Model // by the sizes of its dimensions
	other *opened                    // what it is compared with; may be nil
	names map[string]bool            // of its inputs and of their symbols; nil until somebody asks
}

// openModel reads a model as the settings say. Its close must be called.
func openModel(e *env, in source, s *settings) (*opened, error) {
	rec, err := in.recording(e)
	if rec != nil || err != nil {
		return &opened{in: in, rec: rec}, err
	}
	m, err := s.read(e, in)
	if err != nil {
		return nil, err
	}
	return &opened{in: in, m: m, bound: map[string]*estimate.Model{}}, nil
}

func (o *opened) close() {
	if o.m != nil {
		o.m.Close()
	}
}

// has reports whether the model has an input, or a dimension, of this name.
func (o *opened) has(name string) bool {
	if o.names == nil {
		if o.names = map[string]bool{}; o.m == nil {
			return false
		}
		for _, id := range o.m.Graph.Inputs {
			o.names[o.m.Values[id].Name] = true
		}
		left, _ := stillOpen(o.m, shape.Options{})
		for d := range left {
			o.names[d.name] = true
		}
	}
	return o.names[name]
}

// own returns the settings without sizes of what the other model has and this one has not. A name that neither has
// stays: it is a mistake.
func (o *opened) own(s *settings) *settings {
	others := func(name string) bool { return !o.has(name) && o.other.has(name) }
	if o.other == nil {
		return s
	}
	own := *s
	own.typed, own.dims, own.inputs = s, map[string]int64{}, map[string][]int64{}
	maps.Copy(own.dims, s.dims)
	maps.Copy(own.inputs, s.inputs)
	maps.DeleteFunc(own.dims, func(name string, _ int64) bool { return others(name) })
	maps.DeleteFunc(own.inputs, func(name string, _ []int64) bool { return others(name) })
	o.renamed(&own)
	return &own
}

// renamed gives sizes of dimensions and shapes of inputs that the other model has under another name to this one:
// inputs that have one name are the same, else those in the same place, and a dimension is where it stands in its
// input.
func (o *opened) renamed(own *settings) {
	if o.other.m == nil { // a recording, whose sizes are its own
		return
	}
	theirs := o.other.m.Graph.Inputs
	place := make(map[string]int, len(theirs))
	for i, id := range theirs {
		place[o.other.m.Values[id].Name] = i
	}
	torn := map[string]bool{} // two sizes for one dimension: none of them is taken
	for i, id := range o.m.Graph.Inputs {
		name := o.m.Values[id].Name
		at, same := place[name]
		if !same {
			if len(theirs) != len(o.m.Graph.Inputs) || o.has(o.other.m.Values[theirs[i]].Name) {
				continue
			}
			at = i
		}
		was := o.other.m.Values[theirs[at]]
		mine, old := o.m.Values[id].Type(), was.Type()
		if len(mine.Dims) != len(old.Dims) {
			continue
		}
		if dims, ok := own.typed.inputs[was.Name]; ok && own.inputs[name] == nil {
			own.inputs[name] = dims
		}
		for k, d := range mine.Dims {
			n, ok := own.typed.dims[old.Dims[k].Param]
			if !ok || d.Param == "" || o.other.has(d.Param) {
				continue
			}
			if before, given := own.dims[d.Param]; given && before != n {
				torn[d.Param] = true
			}
			own.dims[d.Param] = n
		}
	}
	maps.DeleteFunc(own.dims, func(name string, _ int64) bool { return torn[name] })
}

// manyValues is how many values a large graph has: what nodes make, weights, inputs. Only one of its programs is kept.
const manyValues = 20_000

// report estimates the model under the settings.
func (o *opened) report(e *env, command string, s *settings) (*estimate.Report, error) {
	if o.rec != nil {
		return s.recorded(e, o.in, o.rec, &questions{})
	}
	if err := s.run.contradiction(); err != nil {
		return nil, err
	}
	step, err := s.run.asked(e)
	if err != nil {
		return nil, err
	}
	s = o.own(s)
	opt := s.options(o.in)
	opt.Step = step
	key := fmt.Sprint(opt.Batch, opt.Dims, opt.Inputs) // maps print in the order of their keys
	b := o.bound[key]
	if b == nil {
		if len(o.m.Values) >= manyValues {
			clear(o.bound)
		}
		if b, err = estimate.Bind(o.m, opt); err != nil {
			return nil, s.explain(err, command, o.in, o.m)
		}
		o.bound[key] = b
	}
	r, err := b.Simulated(opt)
	if err == nil {
		err = b.AddLayers(r)
	}
	if err != nil {
		return nil, s.explain(err, command, o.in, o.m)
	}
	r.Judge(*step, 0, estimate.Predicted)
	return r, nil
}
