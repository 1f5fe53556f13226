package recover

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
)

// ofItsName are names of torch.export's that number the calls of one function alone. Integers of shapes have the names
// of Python's operators, as torch.fx names what operator.add makes add, too; getitem counts the parts of every tuple;
// and what looks at a tensor anew comes and goes as exporters take calls apart.
var ofItsName = strings.Fields("relu relu6 leaky_relu prelu elu selu celu silu gelu mish hardtanh hardswish " +
	"hardsigmoid sigmoid tanh softplus softmax log_softmax glu max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d " +
	"avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d upsample_nearest1d upsample_nearest2d " +
	"upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d layer_norm " +
	"group_norm instance_norm repeat gather")

// unlessFolded are likewise, where no batch norm was folded into what makes them: it has the norm's name then. In a
// file with such norms a name counts whose numbers are all there.
var unlessFolded = strings.Fields("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d linear")

// A gap is where numbers are missing between two calls of a name.
type gap struct {
	after, before int32 // those calls
	left          int   // how many numbers of which no call was made again
}

// numberOf takes a value's name apart: torch.export numbers the calls of each function in the order of the program,
// relu, relu_1, relu_2.
func (b *recovery) numberOf(name string) (base string, number int, ok bool) {
	base, number = module.CallOf(name)
	return base, number, slices.Contains(ofItsName, base) || slices.Contains(unlessFolded, base)
}

// numbers returns the name without its number of what each call makes, "" where it has none, and by name where numbers
// are missing. The default export's optimizer makes equal calls one (CommonSubexpressionEliminationPass of onnx_ir),
// and leaves those that stay their names: of relu, relu_1 and relu_3 the third was equal to one before it. Last are the
// last calls of each name, behind which no number is known.
func (b *recovery) numbers() (bases []string, missing map[string][]gap, last map[string]int32) {
	if !b.byPyTorch() || !b.optimized() {
		return nil, nil, nil
	}
	p := b.prog
	calls := map[string]int32{} // by name of what they make
	bases, missing, last = make([]string, len(p.Calls)), map[string][]gap{}, map[string]int32{}
	for i := range p.Calls {
		if c := &p.Calls[i]; len(c.Out) == 1 && c.Out[0] != program.NoValue && p.Values[c.Out[0]].Name != "" {
			calls[p.Values[c.Out[0]].Name] = int32(i)
		}
	}
	byName := map[string][]numberedCall{}
	for _, n := range b.nodes {
		for _, out := range n.Out {
			name := b.m.NameOf(out)
			base, number, ok := b.numberOf(name)
			if !ok {
				continue
			}
			call, made := calls[name]
			if !made {
				call = -1
			} else {
				bases[call] = base
			}
			byName[base] = append(byName[base], numberedCall{number, call})
		}
	}
	for base, list := range byName {
		switch {
		case !slices.IsSortedFunc(list, func(x, y numberedCall) int { return cmp.Compare(x.number, y.number) }):
			// no numbers of torch.export's
		case b.folded > 0 && slices.Contains(unlessFolded, base) && list[len(list)-1].number >= len(list):
			for _, o := range list { // folding took some
				if o.call >= 0 {
					bases[o.call] = ""
				}
			}
		default:
			if m, end := gaps(list); end >= 0 {
				missing[base], last[base] = m, end
			}
		}
	}
	for base, list := range missing {
		if len(list) == 0 {
			delete(missing, base)
		}
	}
	return bases, missing, last
}

// A numberedCall is a call with the number that its name has, -1 where the value is of no call of its own.
type numberedCall struct {
	number int
	call   int32
}

// gaps returns where numbers are missing between the calls of a name, and the last of these.
func gaps(list []numberedCall) (missing []gap, last int32) {
	before, lost := numberedCall{-1, -1}, 0
	last = -1
	for _, o := range list {
		lost += o.number - before.number - 1
		before.number = o.number
		if o.call < 0 {
			continue
		}
		if before.call >= 0 && o.call > before.call && lost > 0 {
			missing = append(missing, gap{before.call, o.call, lost})
		}
		before.call, lost = o.call, 0
		last = o.call
	}
	return missing, last
}

// unmergeNumbered gives the program back the calls that the optimizer of a default export made one with an equal one
// before them, where the numbers of names say that they were there: a call, and what only it needs, is made again
// before the first that reads it after the number which is missing.
func (b *recovery) unmergeNumbered() {
	bases, missing, last := b.numbers()
	if len(missing) == 0 {
		return
	}
	p := b.prog
	_, readers := madeAndRead(p)
	n := &numbered{p: p, bases: bases, missing: missing, last: last, readers: readers, work: maxChain * len(p.Calls)}
	behind := make([]bool, len(p.Calls)) // whether a number is missing before a call, since the last of its name
	for _, list := range missing {
		for _, g := range list {
			for i := g.after + 1; i <= g.before; i++ {
				behind[i] = true
			}
		}
	}
	out := returned(p)
	copies, total := map[int32][]program.Call{}, 0 // by the call that they come before
	merge := func(x int) {
		c := &p.Calls[x]
		if len(c.Out) != 1 || c.Out[0] == program.NoValue {
			return
		}
		v, now := c.Out[0], c.Out[0]
		at := readers.of(int32(v))
		if len(at) < 2 || out[v] {
			return
		}
		for k := 1; k < len(at); k++ {
			if at[k] == at[k-1] {
				continue
			}
			if behind[at[k]] {
				chain := n.chain(int32(x), at[k])
				if total += len(chain); len(chain) > 0 && total <= maxAgain {
					var again []program.Call
					again, now = b.againFor(chain, p.Calls[at[k]].Scope)
					copies[at[k]] = append(copies[at[k]], again...)
				}
			}
			if now != v {
				readInstead(&p.Calls[at[k]], v, now)
			}
		}
	}
	for _, own := range []bool{true, false} { // a missing number is first of what is read twice, then of what that is of
		for x := range p.Calls {
			if (bases[x] != "") == own {
				merge(x)
			}
		}
	}
	insert(p, copies)
}

// againFor is again of calls whose copies are the reader's lines, and of the module in its place where that is another
// one of the kind.
func (b *recovery) againFor(chain []int32, reader int32) (list []program.Call, result program.ValueID) {
	for _, i := range chain {
		if c := &b.prog.Calls[i]; c.Args.Inplace { // which the others read as well
			args := *c.Args
			args.Inplace = false
			c.Args = args.Kept()
		}
	}
	list, result = b.again(chain)
	for i := range list {
		list[i].Stack, list[i].Scope = 0, b.beside(list[i].Scope, reader)
	}
	return list, result
}

// beside returns the module that stands to the reader as a module stands to those around it: that of "blocks.0.act" to
// "blocks.1.conv" is "blocks.1.act". Where the model has none it is the module itself.
func (b *recovery) beside(scope, reader int32) int32 {
	own, other := b.prog.Scopes[scope].Name, b.prog.Scopes[reader].Name
	mine, theirs := strings.Split(own, "."), strings.Split(other, ".")
	k := 0
	for k < len(mine) && k < len(theirs) && mine[k] == theirs[k] {
		k++
	}
	if k >= len(mine) || k >= len(theirs) {
		return scope
	}
	if s, ok := b.scopes[strings.Join(slices.Concat(theirs[:k+1], mine[k+1:]), ".")]; ok {
		return s
	}
	return scope
}

// numbered is what the numbers of a program's calls say.
type numbered struct {
	p       *program.Program
	bases   []string
	missing map[string][]gap
	last    map[string]int32
	readers reads
	work    int // how many more steps may be made
}

// maxChain is how many calls are looked at that only one may need.
const maxChain = 1 << 8

// chain returns call x and those that only it needs, in order, as far as a number is missing of each that has one,
// before call r and behind x; nil where none is. Calls without numbers are among them where they are of what one with a
// missing number makes.
func (n *numbered) chain(x, r int32) []int32 {
	chain, sure := []int32{x}, map[int32]bool{}
	if base := n.bases[x]; base != "" {
		if !n.take(base, x, r) {
			return nil
		}
		sure[x] = true
	} else if !n.rides(x) {
		return nil
	}
	for i := x - 1; i >= 0 && x-i < maxChain && n.work > 0; i-- {
		c := &n.p.Calls[i]
		if n.work--; len(c.Out) == 0 || c.Out[0] == program.NoValue {
			continue
		}
		at := n.readers.of(int32(c.Out[0]))
		n.work -= len(at)
		if len(at) == 0 || slices.ContainsFunc(at, func(u int32) bool { return !slices.Contains(chain, u) }) {
			continue
		}
		n.work -= len(chain)
		if base := n.bases[i]; base != "" {
			last, known := n.last[base]
			if n.take(base, i, r) {
				sure[i] = true
			} else if known && last >= r {
				continue
			}
		} else if !n.rides(i) {
			continue
		}
		chain = append(chain, i)
	}
	slices.Sort(chain)
	from := map[program.ValueID]bool{} // what a call with a missing number makes, and what is made of that
	return slices.DeleteFunc(chain, func(i int32) bool {
		c := &n.p.Calls[i]
		from[c.Out[0]] = sure[i] || slices.ContainsFunc(c.In, func(v program.ValueID) bool { return from[v] })
		return !from[c.Out[0]]
	})
}

// rides reports whether a call whose name has no number of its own may be among those that were merged.
func (n *numbered) rides(i int32) bool {
	c := &n.p.Calls[i]
	return len(c.Out) == 1 && !program.Of(c.Op).Is(program.Factory|program.Noise)
}

// take takes a number of a name that is missing between call i and call r, and reports whether there is one.
func (n *numbered) take(base string, i, r int32) bool {
	list := n.missing[base]
	k, _ := slices.BinarySearchFunc(list, r, func(g gap, r int32) int { return cmp.Compare(g.before, r) })
	if k == len(list) || list[k].left == 0 || list[k].after < i || list[k].after >= r {
		return false
	}
	list[k].left--
	return true
}
