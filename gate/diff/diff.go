// Package diff tells what changes between two estimates: the totals, the peak, and the layers, which are matched by
// name and by structure: what a layer computes, of which shapes.
package diff

import (
	"math"
	"slices"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/recover/module"
)

// Schema names the JSON form of a Diff. Fields may be added to it; none changes its meaning.
const Schema = "memestimate-diff/1"

// A Diff is what changes from one model to another, under one or several settings.
type Diff struct {
	Schema string             `json:"schema"`
	Base   estimate.ModelInfo `json:"base"`
	Head   estimate.ModelInfo `json:"head"`
	Cases  []Case             `json:"cases"`
}

// Empty reports whether nothing changes under any settings.
func (d *Diff) Empty() bool {
	return !slices.ContainsFunc(d.Cases, func(c Case) bool { return !c.Empty() })
}

// A Case is what changes under one pair of settings; mostly they are the same.
type Case struct {
	Label    string            `json:"label"` // the settings that tell this case from the others
	Base     estimate.Settings `json:"base_settings"`
	Head     estimate.Settings `json:"head_settings"`
	Totals   []Total           `json:"totals"`
	Layers   []Change          `json:"layers"`    // without those that stay the same
	Same     int               `json:"unchanged"` // layers that stay the same, name included
	PeakBase string            `json:"base_peak_layer,omitempty"`
	PeakHead string            `json:"head_peak_layer,omitempty"`
	Partial  bool              `json:"lower_bound,omitempty"` // not every operator of both models is modelled
}

// Empty reports whether no total and no layer changes.
func (c *Case) Empty() bool {
	return len(c.Layers) == 0 && !slices.ContainsFunc(c.Totals, func(t Total) bool { return t.Change != 0 })
}

// Total returns the total of this name, or the zero Total.
func (c *Case) Total(name string) Total {
	for _, t := range c.Totals {
		if t.Name == name {
			return t
		}
	}
	return Total{}
}

// Names of totals, as JSON has them. Each is a size in bytes.
const (
	Parameters  = "parameters"
	Buffers     = "buffers"
	Activations = "activations" // the outputs of all layers
	Saved       = "saved"       // what autograd keeps for backward
	LossSaved   = "loss_saved"  // of that, what the criterion keeps and no layer
	Gradients   = "gradients"
	Optimizer   = "optimizer_state"
	Allocated   = "peak_allocated"
	Reserved    = "peak_reserved"
	Device      = "peak_device" // reserved and context
	Likely      = "peak_likely" // the same with a confidence; not in a diff
	Safe        = "peak_safe"
	Upper       = "upper_bound"
)

// A Total is a figure of the whole model, in bytes.
type Total struct {
	Name    string   `json:"name"`
	Before  int64    `json:"before_bytes"`
	After   int64    `json:"after_bytes"`
	Change  int64    `json:"change_bytes"`
	Percent *float64 `json:"change_percent"` // nil when there was nothing before
}

// Count returns how many changes are of a kind.
func (c *Case) Count(kind string) int {
	n := 0
	for _, l := range c.Layers {
		if l.Kind == kind {
			n++
		}
	}
	return n
}

// Kinds of a Change.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
	Renamed = "renamed" // the name alone differs
)

// A Change is a layer that does not stay the same.
type Change struct {
	Kind       string        `json:"kind"`
	Base       *module.Layer `json:"base,omitempty"` // nil for an added layer
	Head       *module.Layer `json:"head,omitempty"` // nil for a removed one
	Params     int64         `json:"parameters_change"`
	ParamBytes int64         `json:"parameter_bytes_change"`
	Activation int64         `json:"activation_bytes_change"`
	Saved      int64         `json:"saved_bytes_change"`
}

// Compare tells what changes from base to head, which are estimates under the settings that label names.
func Compare(label string, base, head *estimate.Report) Case {
	c := Case{
		Label: label, Base: base.Settings, Head: head.Settings,
		Totals:  totals(base, head),
		Partial: !base.Coverage.Complete() || !head.Coverage.Complete(),
	}
	c.PeakBase, c.PeakHead = orZero(base.Peak).Layer, orZero(head.Peak).Layer
	pairs := match(base.Layers, head.Layers)
	changes := 0 // counted first: room for more would be as much again as a hundred thousand of them take
	for p := range pairs {
		if _, same := p.change(base.Layers, head.Layers); same {
			c.Same++
		} else {
			changes++
		}
	}
	c.Layers = make([]Change, 0, changes)
	for p := range pairs {
		if change, same := p.change(base.Layers, head.Layers); !same {
			c.Layers = append(c.Layers, change)
		}
	}
	return c
}

// change returns what a layer became, or that it stays the same.
func (p pair) change(base, head []module.Layer) (c Change, same bool) {
	c.Kind = Changed
	if p.base >= 0 {
		c.Base = &base[p.base]
	}
	if p.head >= 0 {
		c.Head = &head[p.head]
	}
	switch b, h := c.Base, c.Head; {
	case b == nil:
		c.Kind = Added
	case h == nil:
		c.Kind = Removed
	case b.SavedBytes != h.SavedBytes || structure(b) != structure(h):
	case sameName(b, h):
		return c, true
	default:
		c.Kind = Renamed
	}
	c.add(c.Base, -1)
	c.add(c.Head, 1)
	return c, false
}

// add adds the figures of a layer, or takes them away.
func (c *Change) add(l *module.Layer, sign int64) {
	if l != nil {
		c.Params += sign * l.Params
		c.ParamBytes += sign * l.ParamBytes
		c.Activation += sign * l.Activation
		c.Saved += sign * l.SavedBytes
	}
}

// NewTotal returns a total that goes from before to after.
func NewTotal(name string, before, after int64) Total {
	t := Total{Name: name, Before: before, After: after, Change: after - before}
	if before != 0 {
		p := math.Round(float64(t.Change)/float64(before)*1e4) / 100
		t.Percent = &p
	}
	return t
}

// totals lists the figures that either report has.
func totals(base, head *estimate.Report) []Total {
	var out []Total
	row := func(name string, before, after int64) { out = append(out, NewTotal(name, before, after)) }
	row(Parameters, base.Parameters.Bytes, head.Parameters.Bytes)
	row(Buffers, base.Buffers.Bytes, head.Buffers.Bytes)
	row(Activations, base.Activations.Forward, head.Activations.Forward)
	if base.Peak == nil && head.Peak == nil {
		return out
	}
	saved := func(name string, before, after int64) {
		if before != 0 || after != 0 {
			row(name, before, after)
		}
	}
	saved(Saved, base.Activations.Saved, head.Activations.Saved)
	saved(LossSaved, base.Activations.LossSaved, head.Activations.LossSaved)
	if base.Gradients != nil || head.Gradients != nil {
		row(Gradients, orZero(base.Gradients).Bytes, orZero(head.Gradients).Bytes)
	}
	if base.Optimizer != nil || head.Optimizer != nil {
		row(Optimizer, orZero(base.Optimizer).Bytes, orZero(head.Optimizer).Bytes)
	}
	b, h := orZero(base.Peak), orZero(head.Peak)
	row(Allocated, b.Allocated, h.Allocated)
	row(Reserved, b.Reserved, h.Reserved)
	row(Device, b.Device, h.Device)
	row(Upper, b.UpperBound, h.UpperBound)
	return out
}

// orZero returns what a pointer points to, or a zero value.
func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
