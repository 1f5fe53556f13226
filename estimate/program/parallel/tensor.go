package parallel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
)

// Operators that split adds to a program; eager has their rows.
const (
	enterSplit = "all_reduce_backward" // the same on every rank; of its gradient each rank has a part of the sum
	leaveSplit = "all_reduce"          // of a layer's result each rank has a part of the sum
)

// A splitting is torch.distributed.tensor.parallel.parallelize_module over some modules of a program, as
// PyTorch's tutorial of tensor parallelism has it: ColwiseParallel for the linear layers whose input is whole,
// RowwiseParallel for those that read what the former made. What lies between is divided along a dimension.
type splitting struct {
	prog   *program.Program
	ranks  int64
	within []bool // by scope: modules that are split

	// By call: linear layers whose weight is divided along its rows, the features of their result, and those of which it
	// is divided along its columns, the features of their input.
	columns, rows map[int32]bool
	along         []int             // by value: the dimension that it is divided along plus one; 0 is whole
	from          [][]int32         // by value: the calls of columns behind it
	local         map[int32][]int64 // by call: the Args.Shape that a rank's part has
}

// split divides the linear layers of the model's blocks over the ranks.
func (p Plan) split(prog *program.Program) error {
	marked := Repeated(prog)
	if p.Shard != "" && p.Shard != Blocks {
		var err error
		if marked, err = wrapped(prog, "shard", p.Shard); err != nil {
			return err
		}
	}
	if !slices.Contains(marked, true) {
		return noMatch("parallel: no blocks of the graph repeat: name the modules to split by --shard")
	}
	s := splitting{prog: prog, ranks: int64(p.GPUs), within: marked, columns: map[int32]bool{}}
	for i := range prog.Calls {
		if s.isLinear(int32(i)) {
			s.columns[int32(i)] = true
		}
	}
	for s.propagate() { // until every layer that is divided ends in one that puts the parts together
	}
	if len(s.rows) == 0 {
		return noMatch("parallel: no linear layers can be divided: none along its columns whose result another reads along " +
			"its rows")
	}
	s.apply()
	return nil
}

// isLinear reports whether a call is that of an nn.Linear within the modules that are split.
func (s *splitting) isLinear(i int32) bool {
	c := &s.prog.Calls[i]
	if c.Op != "linear" || within(s.prog, c.Scope, s.within) < 0 {
		return false
	}
	w := &s.prog.Values[c.In[1]]
	return w.Kind == program.Parameter && len(w.Shape) == 2 && strings.HasSuffix(w.Name, ".weight")
}

// propagate says of every value how it is divided, given which layers are. Layers whose result comes to an operator
// that needs all of it are whole after all; it reports whether there were some.
func (s *splitting) propagate() (again bool) {
	p := s.prog
	s.along, s.from = make([]int, len(p.Values)), make([][]int32, len(p.Values))
	s.rows, s.local = map[int32]bool{}, map[int32][]int64{}
	whole := func(v program.ValueID) {
		for _, i := range s.from[v] {
			again = again || s.columns[i]
			delete(s.columns, i)
		}
	}
	reached := make([]bool, len(p.Values)) // what is divided and read by something
	for i := range p.Calls {
		c := &p.Calls[i]
		var divided []program.ValueID
		for _, v := range c.In {
			if v != program.NoValue && s.along[v] > 0 {
				divided = append(divided, v)
				reached[v] = true
			}
		}
		switch {
		case len(divided) == 0:
			if s.columns[int32(i)] {
				s.startAt(int32(i))
			}
		case s.isLinear(int32(i)) && divided[0] == c.In[0] && len(divided) == 1 &&
			s.along[c.In[0]] == len(p.Values[c.In[0]].Shape):
			s.rows[int32(i)] = true
			if s.columns[int32(i)] {
				delete(s.columns, int32(i))
			}
		default:
			dim, ok := s.through(int32(i))
			if !ok || within(p, c.Scope, s.within) < 0 {
				for _, v := range divided {
					whole(v)
				}
				continue
			}
			var from []int32
			for _, v := range divided {
				for _, k := range s.from[v] {
					if !slices.Contains(from, k) {
						from = append(from, k)
					}
				}
			}
			for _, v := range c.Out {
				if v != program.NoValue {
					s.along[v], s.from[v] = dim+1, from
				}
			}
		}
	}
	for _, v := range p.Outputs {
		whole(v)
	}
	for v := range s.along {
		if s.along[v] > 0 && !reached[v] {
			whole(program.ValueID(v))
		}
	}
	return again
}

// startAt divides the result of a layer along its features, where the ranks divide them.
func (s *splitting) startAt(i int32) {
	c := &s.prog.Calls[i]
	out := c.Out[0]
	if s.prog.Values[c.In[1]].Shape[0]%s.ranks != 0 {
		delete(s.columns, i)
		return
	}
	s.along[out], s.from[out] = len(s.prog.Values[out].Shape), []int32{i}
}

// through returns the dimension that the results of a call are divided along where its arguments are, false for a call
// that needs all of them.
func (s *splitting) through(i int32) (dim int, ok bool) {
	p := s.prog
	c := &p.Calls[i]
	out := p.Values[c.Out[0]].Shape
	switch {
	case c.Op == "reshape":
		return s.reshaped(i, out)
	case c.Op == "permute":
		dim = slices.Index(c.Args.Dims, s.along[c.In[0]]-1)
		return dim, dim >= 0
	case c.Op == "expand":
		dim = s.along[c.In[0]] - 1 + len(out) - len(p.Values[c.In[0]].Shape)
		s.local[i] = s.part(c.Args.Shape, dim)
		return dim, true
	case c.Op == "slice":
		dim = s.along[c.In[0]] - 1
		return dim, !slices.Contains(c.Args.Dims, dim)
	case c.Op == "cat":
		dim, ok = s.aligned(c, out)
		return dim, ok && dim != c.Args.Dim
	case program.Of(c.Op).Is(program.Attention):
		return s.attended(c)
	case program.Of(c.Op).Is(program.Pointwise):
		dim, ok = s.aligned(c, out)
		return dim, ok
	}
	return 0, false
}

// aligned returns the dimension of a result that all divided arguments are divided along. The others must have one
// element there, or none.
func (s *splitting) aligned(c *program.Call, out []int64) (dim int, ok bool) {
	dim = -1
	for _, v := range c.In {
		if v != program.NoValue && s.along[v] > 0 {
			at := s.along[v] - 1 + len(out) - len(s.prog.Values[v].Shape)
			if dim >= 0 && at != dim {
				return 0, false
			}
			dim = at
		}
	}
	for _, v := range c.In {
		if v == program.NoValue || s.along[v] > 0 {
			continue
		}
		shape := s.prog.Values[v].Shape
		if at := dim - len(out) + len(shape); at >= 0 && shape[at] != 1 {
			return 0, false
		}
	}
	return dim, out[dim]%s.ranks == 0
}

// attended divides an attention by its heads: of queries, keys and values alike.
func (s *splitting) attended(c *program.Call) (dim int, ok bool) {
	for k, v := range c.In {
		if v == program.NoValue {
			continue
		}
		shape := s.prog.Values[v].Shape
		heads := len(shape) - 3
		switch {
		case heads < 0:
			return 0, k == 3
		case k < 3 && (s.along[v] != heads+1 || shape[heads]%s.ranks != 0):
			return 0, false
		case k == 3 && shape[heads] != 1 && s.along[v] != heads+1:
			return 0, false
		}
	}
	return len(s.prog.Values[c.Out[0]].Shape) - 3, true
}

// reshaped finds the dimension of a reshape's result that begins where the divided one of its argument does: that of
// the heads in features, or of the features that heads become.
func (s *splitting) reshaped(i int32, out []int64) (dim int, ok bool) {
	c := &s.prog.Calls[i]
	in := s.prog.Values[c.In[0]].Shape
	at := s.along[c.In[0]] - 1
	before := program.Numel(in[:at])
	for dim = range out {
		if program.Numel(out[:dim]) == before && out[dim]%s.ranks == 0 && out[dim] > 1 {
			s.local[i] = s.part(c.Args.Shape, dim)
			return dim, true
		}
	}
	return 0, false
}

// part is what a rank has of a shape that is divided along a dimension.
func (s *splitting) part(shape []int64, dim int) []int64 {
	shape = slices.Clone(shape)
	shape[dim] /= s.ranks
	return shape
}

// apply gives values and weights the shapes of a rank's part, and puts the collectives where the layers are.
func (s *splitting) apply() {
	p := s.prog
	p.Values, p.Whole = slices.Clone(p.Values), map[program.ValueID][]int64{}
	for v, at := range s.along {
		if at > 0 {
			p.Values[v].Shape = s.part(p.Values[v].Shape, at-1)
		}
	}
	done := map[program.ValueID]bool{}
	weight := func(v program.ValueID, dim int) {
		if v == program.NoValue || done[v] {
			return
		}
		done[v] = true
		w := &p.Values[v]
		p.Whole[v] = w.Shape
		if dim >= 0 {
			w.Shape = s.part(w.Shape, dim)
		}
	}
	old := p.Calls
	p.Calls = make([]program.Call, 0, len(old)+len(s.columns)+len(s.rows))
	for i := range old {
		c := old[i]
		if shape := s.local[int32(i)]; shape != nil {
			args := *c.Args
			args.Shape = shape
			c.Args = &args
		}
		switch {
		case s.columns[int32(i)]:
			weight(c.In[1], 0)
			if len(c.In) > 2 {
				weight(c.In[2], 0)
			}
			x := p.Add(p.Values[c.In[0]])
			p.Values[x].Kind, p.Values[x].Name = program.Activation, ""
			enter := c
			enter.Op, enter.Args, enter.In, enter.Out = enterSplit, program.Plain, []program.ValueID{c.In[0]}, []program.ValueID{x}
			c.In = slices.Clone(c.In)
			c.In[0] = x
			p.Calls = append(p.Calls, enter, c)
		case s.rows[int32(i)]:
			weight(c.In[1], 1)
			if len(c.In) > 2 {
				weight(c.In[2], -1)
			}
			sum := p.Add(p.Values[c.Out[0]])
			leave := c
			leave.Op, leave.Args, leave.In, leave.Out = leaveSplit, program.Plain, []program.ValueID{sum}, c.Out
			c.Out = []program.ValueID{sum}
			p.Calls = append(p.Calls, c, leave)
		default:
			p.Calls = append(p.Calls, c)
		}
	}
}

// splitNote says of a program how many of its layers the ranks divide.
func splitNote(prog *program.Program, ranks int) string {
	columns, rows := 0, 0
	for i := range prog.Calls {
		switch prog.Calls[i].Op {
		case enterSplit:
			columns++
		case leaveSplit:
			rows++
		}
	}
	return fmt.Sprintf("parallelize_module divides %d linear layers along their columns and %d along their rows over %d "+
		"GPUs; embeddings, norms and all else are whole on each", columns, rows, ranks)
}
