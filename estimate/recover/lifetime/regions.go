package lifetime

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/pysource"
)

// OwnFunction is the name of the doubt what a torch.autograd.Function of the program's own saves: what it is given.
// Without it, it is what autograd would save of its calls, and of a step with a surrogate gradient nothing; with
// OwnResults, such a step saves its result too.
const (
	OwnFunction = "function-of-autograd"
	OwnResults  = "results-of-functions"
)

// Regions returns the calls that the program's lines have autograd run in another way, in order: under
// torch.utils.checkpoint, in the forward of a torch.autograd.Function, which keeps what it was called with, and under
// torch.no_grad.
func Regions(p *program.Program) (checkpoints, functions, noGrad []program.Span) {
	if p.Sources == nil {
		return nil, nil, nil
	}
	r := regionsOf(p)
	r.ownNoGrad()
	r.autocast()
	r.detached()
	return r.checkpoints, r.functions, r.noGrad
}

// regionsOf finds them as the lines alone have them.
func regionsOf(p *program.Program) *regions {
	r := &regions{p: p}
	for i := range p.Calls {
		r.call(int32(i))
	}
	r.close()
	r.segments()
	return r
}

// detached adds the calls whose result a line detaches as it is, x - x.amax(-1).detach(), which optimisers lose: what
// only its gradient needs is not kept, as under no_grad.
func (r *regions) detached() {
	var alone []program.Span
	for i := range r.p.Calls {
		c := &r.p.Calls[i]
		if at := int32(i); c.Stack > 0 && slices.Contains(r.p.Sources.Lines[c.Stack-1].Detached, c.Op) &&
			!slices.ContainsFunc(slices.Concat(r.checkpoints, r.functions, r.noGrad), func(s program.Span) bool {
				return s.First <= at && at <= s.Last
			}) {
			alone = append(alone, program.Span{First: at, Last: at})
		}
	}
	if len(alone) > 0 {
		r.noGrad = append(r.noGrad, alone...)
		slices.SortFunc(r.noGrad, func(a, b program.Span) int { return int(a.First - b.First) })
	}
}

// ownNoGrad mends what torch.export makes of torch.no_grad in the forward of a torch.autograd.Function, as
// guided-diffusion's own CheckpointFunction has it, and torch.utils.checkpoint's with use_reentrant=True. Its forward
// runs without gradients, so that leaving no_grad restores just that, and all that follows is exported as one more body
// without them, up to the next function's. Then the model's output has none either, which nobody trains: every other
// body is the program's own code. torch.fx numbers them all, those too in which nothing is computed, as between two
// checkpoints of a loop, and of which the file has no node.
func (r *regions) ownNoGrad() {
	if len(r.noGrad) == 0 || !r.untrained(r.noGrad) || r.untrained(nil) {
		return
	}
	first := r.body(r.noGrad[0])
	for _, s := range r.noGrad {
		if (r.body(s)-first)%2 == 0 && !r.p.Without[OwnFunction] {
			r.functions = append(r.functions, s)
		}
	}
	r.noGrad = nil
	slices.SortFunc(r.functions, func(a, b program.Span) int { return int(a.First - b.First) })
}

// Recomputes reports whether the function of autograd that applies some calls is one that computes all of them again in
// backward, and keeps the results meanwhile: torch.utils.checkpoint's with use_reentrant=True, which is certain, or one
// with torch.no_grad in its forward, where gradients are off as it is. Who writes that has it from torch's.
func Recomputes(p *program.Program, s program.Span) (all, certain bool) {
	stack := p.Calls[s.First].Stack
	if stack <= 0 {
		return false, false
	}
	w := p.Sources.Wrapped[stack-1]
	for f := stack; f > 0 && f != w.Frame && w.Kind == pysource.Function; f = p.Sources.Frames[f-1].Up {
		if frame := &p.Sources.Frames[f-1]; frame.Up == w.Frame {
			certain = pysource.OfCheckpoint(*frame)
		}
	}
	return certain || w.Kind == pysource.NoGrad, certain
}

// body returns the number of a body under no_grad.
func (r *regions) body(s program.Span) int {
	w := r.p.Sources.Wrapped[r.p.Calls[s.First].Stack-1]
	return r.p.Sources.GraphNumber(w.Frame)
}

// autocast leaves out bodies that are those of torch.autocast(enabled=False), around rotary embeddings for one, which
// torch.export traces anew as those of no_grad: names tell them apart where a body reads what the module has, and
// these do not. Under no_grad parameters before them would have no gradients, which nobody trains so.
func (r *regions) autocast() {
	var rest []program.Span
	for _, s := range r.noGrad {
		if r.readsModule(s) {
			rest = append(rest, s)
		}
	}
	if len(rest) < len(r.noGrad) && r.trained(rest) > r.trained(r.noGrad) {
		r.noGrad = rest
	}
}

// readsModule reports whether one of some calls reads a parameter or a buffer. What folding made of one has no module's
// name, and its line is gone that would tell whose body it is in.
func (r *regions) readsModule(s program.Span) bool {
	for i := s.First; i <= s.Last; i++ {
		for _, v := range r.p.Calls[i].In {
			if v == program.NoValue {
				continue
			}
			x := &r.p.Values[v]
			if (x.Kind == program.Parameter || x.Kind == program.Buffer) && strings.Contains(x.Name, ".") {
				return true
			}
		}
	}
	return false
}

// untrained reports whether gradients reach no parameter from what the program returns, but through some calls.
func (r *regions) untrained(without []program.Span) bool { return r.trained(without) == 0 }

// trained returns how many parameters gradients reach from what the program returns, but through some calls.
func (r *regions) trained(without []program.Span) (parameters int) {
	of := make([]bool, len(r.p.Values))
	for _, v := range r.p.Outputs {
		of[v] = true
	}
	k := len(without) - 1
	for i := int32(len(r.p.Calls)) - 1; i >= 0; i-- {
		for k >= 0 && i < without[k].First {
			k--
		}
		c := &r.p.Calls[i]
		if k >= 0 && i <= without[k].Last || !slices.ContainsFunc(c.Out, func(v program.ValueID) bool {
			return v != program.NoValue && of[v] && r.p.Values[v].DType.IsFloat()
		}) {
			continue
		}
		for _, v := range c.In {
			if v != program.NoValue && !of[v] {
				of[v] = true
				if r.p.Values[v].Kind == program.Parameter {
					parameters++
				}
			}
		}
	}
	return parameters
}

// regions finds them in one pass over the calls.
type regions struct {
	p *program.Program

	checkpoints, functions, noGrad []program.Span

	turns []turn // of the checkpoint_sequential that is open
	open  int    // how many there were whose line does not say how many segments they have

	wrap  pysource.Wrap // of the region that is open
	span  program.Span
	child int32 // the first module that the line calls, -1 for none yet
	stack int32 // of its first call
	left  bool  // it has been at another line since
	last  int32 // the module that it is in
}

// call takes the next call. One without a line is of the region where the next one that has a line is.
func (r *regions) call(i int32) {
	c := &r.p.Calls[i]
	if c.Stack <= 0 || int(c.Stack) > len(r.p.Sources.Wrapped) {
		return
	}
	w := r.p.Sources.Wrapped[c.Stack-1]
	if w.Kind == pysource.Function && c.Stack == w.Frame { // what the function is called with, or what becomes of it
		w = pysource.Wrap{}
	}
	child := int32(-1)
	if w.Kind != pysource.Plain {
		child = r.below(c.Scope, r.p.Sources.Modules(w.Frame))
	}
	if w != r.wrap && !r.sameBody(w) || r.begins(c, child) {
		same := w == r.wrap
		r.close()
		if !same || len(r.turns) > 0 && child == r.turns[0].child {
			r.segments()
		}
		r.wrap, r.span, r.child, r.stack, r.left = w, program.Span{First: i, Last: i}, child, c.Stack, false
	}
	if r.child < 0 {
		r.child = child
	}
	r.left, r.last, r.span.Last = r.left || c.Stack != r.stack, child, i
}

// sameBody reports whether a line is of the body under no_grad that is open.
func (r *regions) sameBody(w pysource.Wrap) bool {
	frames := r.p.Sources.Frames
	return w.Kind == pysource.NoGrad && r.wrap.Kind == pysource.NoGrad &&
		frames[w.Frame-1].File == frames[r.wrap.Frame-1].File
}

// begins reports whether a call of the line that is open is in the next turn of a loop around it: of another member of
// a list of modules, or at its first line again.
func (r *regions) begins(c *program.Call, child int32) bool {
	if r.wrap.Kind == pysource.Plain || r.wrap.Kind == pysource.NoGrad {
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
	switch r.wrap.Kind {
	case pysource.Checkpoint:
		if r.child >= 0 {
			r.checkpoints = append(r.checkpoints, r.span)
		}
	case pysource.Sequential:
		r.turns = append(r.turns, turn{r.span, r.child, r.wrap.Frame})
	case pysource.NoGrad:
		r.noGrad = append(r.noGrad, r.span)
	case pysource.Function:
		if _, certain := Recomputes(r.p, r.span); certain || !r.p.Without[OwnFunction] {
			r.functions = append(r.functions, r.span)
		}
	}
	r.wrap = pysource.Wrap{}
}
