package parallel

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
)

// blocks is a model of so many blocks, each x + down(gelu(up(x))), beside positions that no parameter
// is behind.
func blocks(n int) *program.Program {
	p := &program.Program{Scopes: []program.Scope{{Parent: -1}}, Layers: []string{""}}
	value := func(kind program.ValueKind, name string, shape ...int64) program.ValueID {
		v := p.Add(program.Value{Name: name, Kind: kind, DType: program.Float32, Shape: shape})
		if kind == program.Parameter {
			p.State, p.Params = append(p.State, v), append(p.Params, v)
		}
		return v
	}
	call := func(op string, scope int32, in ...program.ValueID) program.ValueID {
		out := value(program.Activation, "", 2, 8)
		p.Calls = append(p.Calls, program.Call{Op: op, In: in, Out: []program.ValueID{out}, Scope: scope, Args: program.Plain})
		return out
	}
	input := value(program.InputValue, "x", 2, 8)
	p.Inputs = []program.ValueID{input}
	positions := call("neg", 0, input)
	x := call("add", 0, input, value(program.Parameter, "stem", 8))
	for i := range n {
		name := fmt.Sprintf("h.%d", i)
		p.Scopes = append(p.Scopes, program.Scope{Name: name})
		block := int32(len(p.Scopes) - 1)
		p.Scopes = append(p.Scopes, program.Scope{Name: name + ".up", Parent: block},
			program.Scope{Name: name + ".down", Parent: block})
		up := call("linear", block+1, x, value(program.Parameter, name+".up.weight", 16, 8),
			value(program.Parameter, name+".up.bias", 16))
		p.Values[up].Shape = []int64{2, 16}
		wide := call("gelu", block, up)
		p.Values[wide].Shape = []int64{2, 16}
		down := call("linear", block+2, wide, value(program.Parameter, name+".down.weight", 8, 16),
			value(program.Parameter, name+".down.bias", 8))
		x = call("add", block, x, down)
		x = call("mul", block, x, positions)
	}
	p.Outputs = []program.ValueID{x}
	return p
}

func ops(p *program.Program) (list []string) {
	for i := range p.Calls {
		list = append(list, p.Calls[i].Op)
	}
	return list
}

func TestSplit(t *testing.T) {
	given := blocks(2)
	out, err := Plan{GPUs: 2, Parallel: TP}.Apply(given)
	if err != nil {
		t.Fatal(err)
	}
	block := []string{enterSplit, "linear", "gelu", "linear", leaveSplit, "add", "mul"}
	if want := slices.Concat([]string{"neg", "add"}, block, block); !slices.Equal(ops(out), want) {
		t.Errorf("calls %v, want %v", ops(out), want)
	}
	for name, want := range map[string][2][]int64{
		"h.1.up.weight": {{8, 8}, {16, 8}}, "h.1.up.bias": {{8}, {16}}, "h.0.down.weight": {{8, 8}, {8, 16}},
		"h.0.down.bias": {{8}, {8}}, "stem": {{8}, nil},
	} {
		i := slices.IndexFunc(out.Values, func(v program.Value) bool { return v.Name == name })
		whole := out.Whole[program.ValueID(i)]
		if v := out.Values[i]; !slices.Equal(v.Shape, want[0]) || !slices.Equal(whole, want[1]) {
			t.Errorf("%s: %v of %v, want %v", name, v.Shape, whole, want)
		}
	}
	if wide := out.Values[out.Calls[4].Out[0]].Shape; !slices.Equal(wide, []int64{2, 8}) {
		t.Errorf("between the layers: %v, want a rank's half of 16", wide)
	}
	if slices.Contains(ops(given), enterSplit) || given.Whole != nil {
		t.Error("the program that was given is changed")
	}
}

// TestSplitEndsWhereItMust holds layers whole whose parts an operator needs all of: nothing may be split in between.
func TestSplitEndsWhereItMust(t *testing.T) {
	given := blocks(2)
	for i := range given.Calls {
		if given.Calls[i].Op == "gelu" && i < 6 {
			given.Calls[i].Op = "layer_norm"
		}
	}
	out, err := Plan{GPUs: 2, Parallel: TP}.Apply(given)
	if err != nil {
		t.Fatal(err)
	}
	whole := []string{"linear", "layer_norm", "linear", "add", "mul"}
	if got := ops(out)[2:7]; !slices.Equal(got, whole) {
		t.Errorf("calls of the first block %v, want %v", got, whole)
	}
	if !slices.Contains(ops(out)[7:], leaveSplit) {
		t.Errorf("the second block is not split: %v", ops(out)[7:])
	}
}

func TestStages(t *testing.T) {
	given := blocks(4)
	parameters := 0
	for stage := range 2 {
		for _, stages := range []string{"", `h\.2`} {
			out, err := Plan{GPUs: 2, Parallel: PP, Stages: stages, Stage: stage, Checkpoint: `h\.\d`}.Apply(given)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(out.Checkpoints); n != 2 || out.Checkpoints[1].Last != int32(len(out.Calls)-1) {
				t.Errorf("stage %d: checkpointed %v of %d calls, want both blocks", stage, out.Checkpoints, len(out.Calls))
			}
			if stages == "" {
				parameters += len(out.Params)
			}
			switch {
			case stage == 0 && (out.Received != program.NoValue || out.Begins != ""):
				t.Errorf("the first stage receives %d and begins in %q", out.Received, out.Begins)
			case stage == 1 && (out.Begins != "h.2" || out.Values[out.Received].Kind != program.InputValue || len(out.Inputs) != 2):
				t.Errorf("the last stage begins in %q and receives %v of %v", out.Begins, out.Received, out.Inputs)
			case stage == 1 && out.Calls[0].Op != "neg":
				t.Errorf("the last stage begins with %v: what no parameter is behind it computes itself", ops(out))
			}
		}
	}
	if parameters != len(given.Params) {
		t.Errorf("the stages have %d parameters, the model has %d", parameters, len(given.Params))
	}
}

func TestStagesThatCannotBe(t *testing.T) {
	skip := blocks(4)
	last := &skip.Calls[len(skip.Calls)-1]
	last.In = []program.ValueID{last.In[0], skip.Calls[1].Out[0]} // from the first block's input to the last block
	for _, c := range []struct {
		plan Plan
		prog *program.Program
		want string
	}{
		{Plan{GPUs: 2}, skip, "more than one tensor passes between stages: from stage 0"},
		{Plan{GPUs: 5}, blocks(4), "too few blocks for 5 stages: the graph shows 4 that repeat"},
		{Plan{GPUs: 2, Stages: "h"}, blocks(4), `"h" is the whole name of no module`},
		{Plan{GPUs: 3, Stages: `h\.2`}, blocks(4), "begin 2 stages, and gpus is 3"},
		{Plan{GPUs: 3, Stages: `h\.2,h\.1`}, blocks(4), "begins no later"},
		{Plan{GPUs: 4, Microbatches: 3}, blocks(4), "fewer than the 4 stages"},
		{Plan{GPUs: 2, Schedule: "zb"}, blocks(4), `unknown "zb"`},
		{Plan{GPUs: 2, Stages: "("}, blocks(4), "is no regular expression"},
	} {
		c.plan.Parallel = PP
		if _, err := c.plan.Apply(c.prog); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.plan, err, c.want)
		}
	}
	if err := (Plan{GPUs: 2, Stages: "h"}).Check(); err == nil || !strings.Contains(err.Error(), "parallel is not pp") {
		t.Errorf("stages without a pipeline: %v", err)
	}
}
