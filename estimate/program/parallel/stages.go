package parallel

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
)

// Schedules are the orders in which a pipeline runs its microbatches.
var Schedules = []string{OneByOne, FillDrain}

// The schedules.
const (
	OneByOne  = "1f1b"  // Schedule1F1B: each forward pass is followed by a backward pass, once the pipeline is full
	FillDrain = "gpipe" // ScheduleGPipe: all forward passes, then all backward passes
)

// checkPipeline says whether the settings of a pipeline are such.
func (p Plan) checkPipeline() error {
	if p.Parallel != PP {
		if p.Stages != "" || p.Microbatches != 0 || p.Schedule != "" {
			return errors.New("how a pipeline runs is set, and parallel is not pp")
		}
		return nil
	}
	for expr := range strings.SplitSeq(p.Stages, ",") {
		if err := CheckPattern(expr); err != nil {
			return fmt.Errorf("stages: %.200q is no regular expression: %w", expr, err)
		}
	}
	switch n := strings.Count(p.Stages, ",") + 2; {
	case p.Stages != "" && n != p.GPUs:
		return fmt.Errorf("stages: as many expressions begin %d stages, and gpus is %d", n, p.GPUs)
	case p.Schedule != "" && !slices.Contains(Schedules, p.Schedule):
		return fmt.Errorf("schedule: unknown %q, want one of %v", p.Schedule, Schedules)
	case p.Microbatches < 0 || p.Microbatches > mostMicrobatches:
		return fmt.Errorf("microbatches: %d is not a number of them, want 1 to %d", p.Microbatches, mostMicrobatches)
	case p.Schedule != FillDrain && p.Microbatches != 0 && p.Microbatches < p.GPUs:
		return fmt.Errorf("microbatches: %d are fewer than the %d stages, which schedule 1f1b does not take",
			p.Microbatches, p.GPUs)
	case p.GPUs > mostStages:
		return fmt.Errorf("gpus: a pipeline of %d stages is longer than any, want 2 to %d", p.GPUs, mostStages)
	}
	return nil
}

// The longest pipeline, and the most microbatches of a step, that are simulated.
const (
	mostStages       = 1 << 10
	mostMicrobatches = 1 << 12

	// mostCalls is how many calls the forward passes of a step may make, all stages together: half a minute's work.
	// What the allocator does for a microbatch follows from all before, so that each is a pass of its own.
	mostCalls = 1 << 20
)

// A cutting is a program in the stages of a pipeline.
type cutting struct {
	prog  *program.Program
	at    []int32  // by call: its stage
	names []string // of the modules that stages begin with, the first's is empty
	maker []int32  // by value: the call that makes it, -1 for none
	trans []bool   // by value: no parameter is behind it, so that a stage that needs it computes it itself
}

// stage returns what one of the pipeline's GPUs runs: the calls of its modules, and what of other calls these need that
// no parameter is behind, such as masks and rotary embeddings. One tensor comes from the stage before, and one goes to
// the stage behind.
func (p Plan) stage(prog *program.Program) (*program.Program, error) {
	if n, most := cmp.Or(p.Microbatches, p.GPUs), max(mostCalls/max(len(prog.Calls), 1), 1); n > most {
		return nil, noMatch("microbatches: %d of a model of %d calls are more than are simulated, want %d at most", n,
			len(prog.Calls), most)
	}
	c := cutting{prog: prog}
	if err := p.cut(&c); err != nil {
		return nil, err
	}
	c.trace()
	k := int32(p.Stage)
	in, err := c.crossing(k)
	if err != nil {
		return nil, err
	}
	out, err := c.crossing(k + 1)
	if err != nil {
		return nil, err
	}
	return c.take(k, in, out, p.GPUs), nil
}

// cut says which stage each call belongs to: the modules that begin stages are named, or the repeated blocks are shared
// out evenly.
func (p Plan) cut(c *cutting) error {
	prog := c.prog
	var begins []int32
	c.names = []string{""}
	if p.Stages != "" {
		for expr := range strings.SplitSeq(p.Stages, ",") {
			whole := regexp.MustCompile(`\A(?:` + expr + `)\z`) // Check has seen it
			name := ""
			first := slices.IndexFunc(prog.Calls, func(call program.Call) bool {
				for s := call.Scope; s >= 0; s = prog.Scopes[s].Parent {
					if name = prog.Scopes[s].Name; name != "" && whole.MatchString(name) {
						return true
					}
				}
				return false
			})
			if first < 0 {
				return noMatch("stages: %q is the whole name of no module that a stage could begin with, one is %q", expr,
					anyModule(prog))
			}
			if len(begins) > 0 && int32(first) <= begins[len(begins)-1] || first == 0 {
				return noMatch("stages: %q begins no later than the stage before it", expr)
			}
			begins, c.names = append(begins, int32(first)), append(c.names, name)
		}
	} else {
		marked := Repeated(prog)
		seen := map[int32]bool{}
		var blocks []int32 // their first calls
		for i := range prog.Calls {
			if s := within(prog, prog.Calls[i].Scope, marked); s >= 0 && !seen[s] {
				seen[s] = true
				blocks = append(blocks, int32(i))
			}
		}
		if len(blocks) < p.GPUs {
			return noMatch("parallel: too few blocks for %d stages: the graph shows %d that repeat, name the modules that "+
				"begin stages by --stages", p.GPUs, len(blocks))
		}
		for k := 1; k < p.GPUs; k++ {
			first := blocks[k*len(blocks)/p.GPUs]
			begins = append(begins, first)
			c.names = append(c.names, prog.Scopes[within(prog, prog.Calls[first].Scope, marked)].Name)
		}
	}
	c.at = make([]int32, len(prog.Calls))
	for i, k := 0, int32(0); i < len(c.at); i++ {
		for int(k) < len(begins) && int32(i) >= begins[k] {
			k++
		}
		c.at[i] = k
	}
	return nil
}

// trace says of every value which call makes it, and whether a parameter is behind it.
func (c *cutting) trace() {
	p := c.prog
	c.maker, c.trans = make([]int32, len(p.Values)), make([]bool, len(p.Values))
	for v := range p.Values {
		c.maker[v] = -1
		c.trans[v] = p.Values[v].Kind != program.Parameter
	}
	for i := range p.Calls {
		free := true
		for _, v := range p.Calls[i].In {
			free = free && (v == program.NoValue || c.trans[v])
		}
		for _, v := range p.Calls[i].Out {
			if v != program.NoValue {
				c.maker[v], c.trans[v] = int32(i), free
			}
		}
	}
}

// crossing returns the value that stage k gets from the one before, NoValue for the first and behind the last.
func (c *cutting) crossing(k int32) (program.ValueID, error) {
	p, found := c.prog, program.NoValue
	last := c.at[len(c.at)-1]
	if k == 0 || k > last {
		return program.NoValue, nil
	}
	for i := range p.Calls {
		if c.at[i] < k {
			continue
		}
		for _, v := range p.Calls[i].In {
			if v == program.NoValue || c.maker[v] < 0 || c.trans[v] || c.at[c.maker[v]] >= k || v == found {
				continue
			}
			if found != program.NoValue || c.at[i] > k {
				return 0, noMatch("parallel: more than one tensor passes between stages: from stage %d of the pipeline to those "+
					"behind it, or one passes a stage by, which is not simulated: let stages begin elsewhere by --stages", k-1)
			}
			found = v
		}
	}
	if found == program.NoValue {
		return 0, noMatch("parallel: nothing passes from stage %d of the pipeline to the next", k-1)
	}
	return found, nil
}

// take returns the program of a stage of so many.
func (c *cutting) take(k int32, in, out program.ValueID, stages int) *program.Program {
	p := *c.prog
	keep := make([]bool, len(p.Calls))
	needed := make([]bool, len(p.Values))
	for i := len(p.Calls) - 1; i >= 0; i-- {
		keep[i] = c.at[i] == k
		for _, v := range p.Calls[i].Out {
			keep[i] = keep[i] || v != program.NoValue && needed[v] && v != in
		}
		if !keep[i] {
			continue
		}
		for _, v := range p.Calls[i].In {
			if v != program.NoValue {
				needed[v] = true
			}
		}
	}
	p.Values = slices.Clone(p.Values)
	p.Begins, p.Received = c.names[k], in
	at := make([]int32, len(p.Calls))
	p.Calls = nil
	for i := range c.prog.Calls {
		if at[i] = int32(len(p.Calls)); keep[i] {
			p.Calls = append(p.Calls, c.prog.Calls[i])
		}
	}
	used := func(list []program.ValueID) []program.ValueID {
		return slices.DeleteFunc(slices.Clone(list), func(v program.ValueID) bool { return !needed[v] })
	}
	p.Inputs, p.State, p.Params = used(p.Inputs), used(p.State), used(p.Params)
	p.Flat = slices.DeleteFunc(slices.Clone(p.Flat), func(group []program.ValueID) bool { return !needed[group[0]] })
	for i := range p.Values {
		if v := &p.Values[i]; v.Kind == program.Constant && !needed[i] {
			v.Kind = program.Number
		}
	}
	if in != program.NoValue {
		p.Values[in].Kind = program.InputValue
		p.Inputs = append(p.Inputs, in)
	}
	if int(k) < stages-1 {
		p.Outputs = []program.ValueID{out}
	}
	p.Checkpoints = nil
	for _, span := range c.prog.Checkpoints {
		if c.at[span.First] == k && c.at[span.Last] == k {
			p.Checkpoints = append(p.Checkpoints, program.Span{First: at[span.First], Last: at[span.Last]})
		}
	}
	return &p
}
