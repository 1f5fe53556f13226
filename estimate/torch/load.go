package torch

import (
	"cmp"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// load is model.to("cuda", dtype) and x.to("cuda").
func (r *run) load() (values []*tensor, params []*leaf) {
	r.begin(timeline.Load)
	values = make([]*tensor, len(r.prog.Values))
	r.loadState(values)
	params = make([]*leaf, 0, len(r.prog.State))
	for _, id := range r.prog.Params {
		if values[id].leaf != nil {
			params = append(params, values[id].leaf)
		}
	}
	r.layer = timeline.NoLayer
	if r.opts.Shards.World > 1 && r.opts.Train {
		params = r.shard(values)
	}
	r.replicate(values, params)
	for _, id := range r.prog.Inputs {
		values[id] = r.put(id, timeline.Input)
	}
	for i := range r.prog.Values {
		switch v := &r.prog.Values[i]; v.Kind {
		case program.Number:
			values[i] = scalar(v.DType)
		case program.Constant:
			values[i] = r.put(program.ValueID(i), timeline.Buffer)
		}
	}
	return values, params
}

// put makes the tensor of a value that the program is given.
func (r *run) put(id program.ValueID, c timeline.Category) *tensor {
	v := &r.prog.Values[id]
	dtype := v.DType
	if dtype.IsFloat() && !v.Full {
		dtype = r.opts.Precision.params()
	}
	l := r.layouts.rowMajor(v.Shape)
	if r.opts.ChannelsLast && (len(v.Shape) == 4 || len(v.Shape) == 5) && c != timeline.Buffer {
		l = r.layouts.at(v.Shape, kernels.ChannelsLast(v.Shape))
	}
	apart := r.opts.Shards.Meta || r.opts.Shards.Offload
	t := r.laidOn(c == timeline.Parameter && apart && r.opts.Train, dtype, l)
	r.recategorize(t.st, c)
	if c == timeline.Buffer && dtype.IsFloat() {
		// Sharding leaves it in its type, and what it meets is taken to be in another.
		t.dtype = r.floats()
	}
	t.st.state = c == timeline.Parameter || c == timeline.Buffer
	t.st.parameter = c == timeline.Parameter
	return t
}

// loadState moves parameters and buffers in the order of model.to, which moves the weights of a recurrent layer into
// one block behind the last of them.
func (r *run) loadState(values []*tensor) {
	flat := map[program.ValueID][]program.ValueID{} // by the last to move
	for _, group := range r.prog.Flat {
		at := slices.MaxFunc(group, func(x, y program.ValueID) int {
			return slices.Index(r.prog.State, x) - slices.Index(r.prog.State, y)
		})
		flat[at] = group
	}
	owner := readers(r.prog)
	for _, id := range r.prog.State {
		r.layer = owner[id]
		switch v := &r.prog.Values[id]; v.Kind {
		case program.Parameter:
			t := r.put(id, timeline.Parameter)
			values[id] = t
			if t.st.parameter = !v.Frozen; v.DType.IsFloat() && !v.Frozen {
				t.leaf = r.leaves.one()
				t.leaf.param = t
				t.requiresGrad = true
			}
		default:
			values[id] = r.put(id, timeline.Buffer)
		}
		if group := flat[id]; len(group) > 0 {
			weights := make([]*tensor, len(group))
			for i, w := range group {
				weights[i] = values[w]
			}
			// _flat_weights, as registered
			slices.SortFunc(weights, func(a, b *tensor) int { return cmp.Compare(a.st.block, b.st.block) })
			r.flatten(weights)
		}
	}
}

// readers returns by value the layer that first reads it: for a parameter, the one that it belongs to.
func readers(p *program.Program) []int32 {
	layers := make([]int32, len(p.Values))
	for i := range layers {
		layers[i] = timeline.NoLayer
	}
	for i := range p.Calls {
		for _, v := range p.Calls[i].In {
			if v != program.NoValue && layers[v] == timeline.NoLayer {
				layers[v] = p.Calls[i].Layer
			}
		}
	}
	return layers
}
