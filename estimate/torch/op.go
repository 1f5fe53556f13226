package torch

import (
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// An op is everything memestimate knows about one PyTorch operator: what autocast
// does with its arguments, and what a call allocates, saves and does in backward.
type op struct {
	name string
	amp  castPolicy
	run  func(r *run, c *program.Call, in []*tensor) []*tensor // in is borrowed; the outputs belong to the caller
}

// opTables lists the operators by family.
var opTables = [][]op{pointwiseOps, matmulOps, convOps, normOps, poolOps, viewOps, indexOps, reduceOps, attentionOps,
	rnnOps, einsumOps, mathOps, fftOps, deformOps, opaqueOps}

// rowsByName indexes the opTables.
func rowsByName() map[string]*op {
	m := make(map[string]*op)
	for _, table := range opTables {
		for i := range table {
			m[table[i].name] = &table[i]
		}
	}
	return m
}

// call runs one call of the program on values, which it reads and sets. It returns the results that
// nothing reads, for the caller to release.
func (r *run) call(c *program.Call, values []*tensor) (unread []*tensor, err error) {
	in := r.args[:0]
	for i, v := range c.In {
		if v == program.NoValue {
			in = append(in, nil)
			continue
		}
		if in = append(in, values[v]); values[v] == nil { // Recover's mistake: no user shall see a panic for it
			return nil, fmt.Errorf("argument %d (%q) is read before a call makes it", i, r.prog.Values[v].Name)
		}
	}
	r.args = in
	outs, err := r.apply(c, in)
	if err != nil {
		return nil, err
	}
	if r.err != nil {
		return nil, r.err
	}
	for i, v := range c.Out {
		if v == program.NoValue {
			continue
		}
		if i >= len(outs) {
			return nil, fmt.Errorf("result %d is not known", i)
		}
		if want := r.prog.Values[v].Shape; !outs[i].host && !slices.Equal(outs[i].shape, want) {
			return nil, fmt.Errorf("result %q would be of shape %v, the graph has %v", r.prog.Values[v].Name, outs[i].shape,
				want)
		}
	}
	for i, t := range outs {
		if i < len(c.Out) && c.Out[i] != program.NoValue {
			values[c.Out[i]] = t
		} else {
			unread = append(unread, t)
		}
	}
	return unread, nil
}

// apply runs an operator's row on arguments, which are borrowed and may be replaced by their casts;
// the outputs belong to the caller.
func (r *run) apply(c *program.Call, in []*tensor) ([]*tensor, error) {
	row := r.rows[c.Op]
	if row == nil {
		return nil, fmt.Errorf("no row for operator %q", c.Op)
	}
	cast := r.autocast(row.amp, in)
	r.started()
	outs := row.run(r, c, in)
	for _, t := range cast {
		r.release(t)
	}
	return outs, nil
}

// one wraps the only output of an operator.
func one(t *tensor) []*tensor { return []*tensor{t} }
