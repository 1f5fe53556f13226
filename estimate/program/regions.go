package program

import (
	"slices"
	"strings"
)

// Regions returns the calls that the program's lines have autograd run in another way, in order: under
// torch.utils.checkpoint and under torch.no_grad.
func (p *Program) Regions() (checkpoints, noGrad []Span) {
	if len(p.Lines) == 0 {
		return nil, nil
	}
	r := &regions{p: p}
	for i := range p.Calls {
		r.call(int32(i))
	}
	r.close()
	return r.of[Checkpoint], p.withoutAutocast(r.of[NoGrad])
}

// regions finds them in one pass over the calls.
type regions struct {
	p  *Program
	of [NoGrad + 1][]Span

	open  Region
	span  Span
	child int32 // the first module that the line calls, -1 for none yet
	stack int32 // of its first call
	left  bool  // it has been at another line since
	last  int32 // the module that it is in
}

// call takes the next call. One without a line is of the region where the next one that has a line is.
func (r *regions) call(i int32) {
	c := &r.p.Calls[i]
	if c.Stack <= 0 || int(c.Stack) > len(r.p.Lines) {
		return
	}
	region, child := r.p.Lines[c.Stack-1].Region, int32(-1)
	if region.Kind != NoRegion {
		child = r.below(c.Scope, r.p.Lines.Modules(region.Frame))
	}
	if region != r.open && !r.sameBody(region) || r.begins(c, child) {
		r.close()
		r.open, r.span, r.child, r.stack, r.left = region, Span{First: i, Last: i}, child, c.Stack, false
	}
	if r.child < 0 {
		r.child = child
	}
	r.left, r.last, r.span.Last = r.left || c.Stack != r.stack, child, i
}

// sameBody reports whether a line is of the body under no_grad that is open.
func (r *regions) sameBody(region Region) bool {
	return region.Kind == NoGrad && r.open.Kind == NoGrad &&
		r.p.Lines[region.Frame-1].File == r.p.Lines[r.open.Frame-1].File
}

// begins reports whether a call of the line that is open is in the next turn of a loop around it: of another member of
// a list of modules, or at its first line again.
func (r *regions) begins(c *Call, child int32) bool {
	if r.open.Kind == NoRegion || r.open.Kind == NoGrad {
		return false
	}
	if child >= 0 && r.child >= 0 && child != r.last && child != r.child {
		return withoutNumbers(r.p.Scopes[child].Name) == withoutNumbers(r.p.Scopes[r.child].Name)
	}
	return c.Stack == r.stack && r.left
}

// below returns the module of the one around a scope that is one deeper than a depth, -1 for none.
func (r *regions) below(scope int32, depth int) int32 {
	for r.p.Depth(scope) > depth+1 {
		scope = r.p.Scopes[scope].Parent
	}
	if r.p.Depth(scope) <= depth {
		return -1
	}
	return scope
}

// close ends the region that is open. A line that only says checkpoint and calls no module computes its arguments.
func (r *regions) close() {
	if kind := r.open.Kind; kind != NoRegion && (kind != Checkpoint || r.child >= 0) {
		r.of[kind] = append(r.of[kind], r.span)
	}
	r.open = Region{}
}

// withoutAutocast leaves out bodies that are those of torch.autocast(enabled=False), around rotary embeddings for one,
// which torch.export traces anew as those of no_grad: names tell them apart where a body reads what the module has, and
// these do not. Under no_grad parameters before them would have no gradients, which nobody trains so.
func (p *Program) withoutAutocast(noGrad []Span) []Span {
	certain := slices.DeleteFunc(slices.Clone(noGrad), func(s Span) bool { return !p.readsModule(s) })
	if len(certain) < len(noGrad) && p.trained(certain) > p.trained(noGrad) {
		return certain
	}
	return noGrad
}

// readsModule reports whether one of some calls reads a parameter or a buffer. What folding made of one has no module's
// name, and its line is gone that would tell whose body it is in.
func (p *Program) readsModule(s Span) bool {
	for i := s.First; i <= s.Last; i++ {
		for _, v := range p.Calls[i].In {
			if x := &p.Values[v]; (x.Kind == Parameter || x.Kind == Buffer) && strings.Contains(x.Name, ".") {
				return true
			}
		}
	}
	return false
}

// trained returns how many parameters gradients reach from what the program returns, but through some calls.
func (p *Program) trained(without []Span) (parameters int) {
	of := make([]bool, len(p.Values))
	for _, v := range p.Outputs {
		of[v] = true
	}
	k := len(without) - 1
	for i := int32(len(p.Calls)) - 1; i >= 0; i-- {
		for k >= 0 && i < without[k].First {
			k--
		}
		c := &p.Calls[i]
		if k >= 0 && i <= without[k].Last || !slices.ContainsFunc(c.Out, func(v ValueID) bool {
			return of[v] && p.Values[v].DType.IsFloat()
		}) {
			continue
		}
		for _, v := range c.In {
			if v != NoValue && !of[v] {
				of[v] = true
				if p.Values[v].Kind == Parameter {
					parameters++
				}
			}
		}
	}
	return parameters
}
