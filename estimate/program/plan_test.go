package program

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// program is a stem, two numbered blocks of a layer each, and a head.
func prog2() *Program {
	p := &Program{Scopes: []Scope{{Parent: -1}, {Name: "stem", Parent: 0}, {Name: "h", Parent: 0},
		{Name: "h.0", Parent: 2}, {Name: "h.0.fc", Parent: 3}, {Name: "h.1", Parent: 2}, {Name: "h.1.fc", Parent: 5},
		{Name: "head", Parent: 0}}}
	for i, s := range []int32{1, 4, 3, 6, 5, 7} {
		p.Calls = append(p.Calls, Call{Op: "relu", In: []ValueID{ValueID(i + 1)},
			Out: []ValueID{ValueID(i + 2)}, Scope: s})
	}
	for _, name := range []string{"stem.weight", "h.0.fc.weight", "h.1.fc.weight", "head.weight"} {
		p.State = append(p.State, p.Add(Value{Name: name, Kind: Parameter, DType: Float32}))
	}
	return p
}

func TestFreeze(t *testing.T) {
	for _, c := range []struct {
		plan   Plan
		frozen []bool
	}{
		{Plan{TrainOnly: "^head"}, []bool{true, true, true, false}},
		{Plan{Freeze: `h\.0|stem`}, []bool{true, true, false, false}},
		{Plan{TrainOnly: "^h", Freeze: "head"}, []bool{true, false, false, true}},
	} {
		prog := prog2()
		out, err := c.plan.Apply(prog)
		must.OK(t, err)
		for k, want := range c.frozen {
			i := prog.State[k]
			if out.Values[i].Frozen != want {
				t.Errorf("%+v: %s: frozen is %v, want %v", c.plan, out.Values[i].Name, out.Values[i].Frozen, want)
			}
			if prog.Values[i].Frozen {
				t.Errorf("%+v: the program that was given is changed", c.plan)
			}
		}
	}
}

func TestCheckpoint(t *testing.T) {
	want := []Span{{First: 1, Last: 2}, {First: 3, Last: 4}}
	for _, expr := range []string{Blocks, `h\.\d`, `h\.0|h\.1`} {
		out, err := Plan{Checkpoint: expr}.Apply(prog2())
		if err != nil || !slices.Equal(out.Checkpoints, want) {
			t.Errorf("%s: spans %v, %v, want %v", expr, out, err, want)
		}
	}
}

func TestPlansThatMatchNothing(t *testing.T) {
	for _, c := range []struct {
		plan Plan
		want string
	}{
		{Plan{TrainOnly: "fc9"}, `train-only: "fc9" matches no parameter, the first is "stem.weight"`},
		{Plan{Freeze: "fc9"}, `freeze: "fc9" matches no parameter`},
		{Plan{Checkpoint: "fc9"}, `checkpoint: "fc9" is the whole name of no module`},
		{Plan{GPUs: 2, Parallel: FSDP, Shard: `h\.0.*`}, "one within another is not simulated"},
		{Plan{Checkpoint: `h\.\d|h\.0\.fc`}, "one within another is not simulated from a graph; record the step"},
		{Plan{Checkpoint: Blocks, Reentrant: true}, "use_reentrant=True is not simulated from a graph; record the step"},
		{Plan{GPUs: 2, Parallel: "dp"}, `unknown scheme "dp"`},
		{Plan{GPUs: -1}, "is not a number of GPUs"},
		{Plan{GPUs: 1 << 40}, "is not a number of GPUs"},
		{Plan{Parallel: DDP}, "their number is not"},
		{Plan{Checkpoint: "("}, "is no regular expression"},
		{Plan{Freeze: strings.Repeat(".*", 5000)}, "states, want 8192 at most"},
		{Plan{Shard: "(.{1000}){1,}" + strings.Repeat("x{1000}", 8)}, "states, want 8192 at most"},
		{Plan{LoRA: "targets=" + strings.Repeat("a", 9000)}, "states, want 8192 at most"},
	} {
		if _, err := c.plan.Apply(prog2()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.plan, err, c.want)
		}
	}
}

func TestGroups(t *testing.T) {
	for shard, want := range map[string]string{
		"":     "h.0.fc.weight | h.1.fc.weight | stem.weight head.weight",
		Blocks: "h.0.fc.weight | h.1.fc.weight | stem.weight head.weight",
		`h\.1`: "h.1.fc.weight | stem.weight h.0.fc.weight head.weight",
		Whole:  "stem.weight h.0.fc.weight h.1.fc.weight head.weight",
	} {
		prog := prog2()
		prog.Params = prog.State
		for i := range prog.Calls { // the weights are the first values, which calls of these modules read
			if k := slices.Index([]int32{1, 4, 6, 7}, prog.Calls[i].Scope); k >= 0 {
				prog.Calls[i].In = []ValueID{prog.State[k]}
			} else {
				prog.Calls[i].In = nil
			}
		}
		got, err := Plan{GPUs: 2, Parallel: FSDP, Shard: shard}.Apply(prog)
		must.OK(t, err)
		var groups []string
		for _, g := range got.Groups {
			var names []string
			for _, v := range g.Params {
				names = append(names, got.Values[v].Name)
			}
			groups = append(groups, strings.Join(names, " "))
		}
		if strings.Join(groups, " | ") != want {
			t.Errorf("%q: %q, want %s", shard, groups, want)
		}
	}
	for _, c := range []struct {
		plan Plan
		want string
	}{
		{Plan{GPUs: 2, Shard: "h"}, "parallel is not fsdp"},
		{Plan{GPUs: 2, Parallel: FSDP, View: true}, "which has none"},
		{Plan{GPUs: 2, Parallel: FSDP, ParamDType: "int8"}, "unknown type"},
		{Plan{GPUs: 2, Parallel: FSDP, Shard: "nothing"}, "is the whole name of no module"},
	} {
		if _, err := c.plan.Apply(prog2()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.plan, err, c.want)
		}
	}
}

func TestFirstBlocks(t *testing.T) {
	out, err := Plan{Checkpoint: "blocks:1"}.Apply(prog2())
	if want := []Span{{First: 1, Last: 2}}; err != nil || !slices.Equal(out.Checkpoints, want) {
		t.Errorf("%v, %v, want %v", out, err, want)
	}
	if _, err := (Plan{Checkpoint: "blocks:0"}).Apply(prog2()); err == nil {
		t.Error("no blocks at all are taken for some")
	}
}

func TestFLOPs(t *testing.T) {
	p := &Program{}
	value := func(shape ...int64) ValueID {
		return p.Add(Value{DType: Float32, Shape: shape})
	}
	for _, c := range []struct {
		op   string
		in   []ValueID
		out  ValueID
		want float64
	}{
		{"linear", []ValueID{value(2, 3), value(5, 3)}, value(2, 5), 2 * 2 * 5 * 3},
		{"addmm", []ValueID{value(5), value(2, 3), value(3, 5)}, value(2, 5), 2 * 2 * 5 * 3},
		{"conv", []ValueID{value(1, 4, 8, 8), value(6, 2, 3, 3)}, value(1, 6, 8, 8), 2 * 6 * 64 * 2 * 9},
		{"sdpa", []ValueID{value(1, 2, 7, 4), value(1, 2, 9, 4), value(1, 2, 9, 4)}, value(1, 2, 7, 4),
			2 * 2 * (2 * 7 * 9 * 4)},
		{"relu", []ValueID{value(9)}, value(9), 0},
	} {
		p.Calls = []Call{{Op: c.op, In: c.in, Out: []ValueID{c.out}, Args: Plain}}
		if got := FLOPs(p, 0, 0); got != c.want {
			t.Errorf("%s: %v, want %v", c.op, got, c.want)
		}
	}
}

func TestWords(t *testing.T) {
	if words := (Plan{}).Words(); len(words) > 0 {
		t.Errorf("the plain step: %q", words)
	}
	got := strings.Join(Plan{Checkpoint: Blocks, GPUs: 4, Parallel: FSDP, ParamDType: "bf16"}.Words(), ", ")
	if want := "blocks checkpointed, fsdp on 4 GPUs, parameters in bf16"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// adaptable is a projection that is called twice, a norm, and a head.
func adaptable() *Program {
	p := &Program{Scopes: []Scope{{Parent: -1}, {Name: "h.0", Parent: 0}, {Name: "head", Parent: 0}}}
	value := func(name string, kind ValueKind, shape ...int64) ValueID {
		id := p.Add(Value{Name: name, Kind: kind, DType: Float32, Shape: shape})
		if kind == Parameter {
			p.State, p.Params = append(p.State, id), append(p.Params, id)
		}
		return id
	}
	w, b := value("h.0.q_proj.weight", Parameter, 6, 4), value("h.0.q_proj.bias", Parameter, 6)
	norm, head := value("norm.weight", Parameter, 6), value("head.weight", Parameter, 9, 6)
	x, y, z := value("x", InputValue, 2, 4), value("y", Activation, 2, 6), value("z", Activation, 2, 6)
	n, o := value("n", Activation, 2, 6), value("o", Activation, 2, 9)
	call := func(op string, scope int32, out ValueID, in ...ValueID) {
		p.Calls = append(p.Calls, Call{Op: op, In: in, Out: []ValueID{out}, Args: Plain, Scope: scope})
	}
	call("linear", 1, y, x, w, b)
	call("linear", 1, z, x, w, b)
	call("mul", 0, n, z, norm)
	call("linear", 2, o, n, head)
	p.Inputs, p.Outputs = []ValueID{x}, []ValueID{o}
	return p
}

func TestLoRA(t *testing.T) {
	const a, b = "h.0.q_proj.lora_A.default.weight", "h.0.q_proj.lora_B.default.weight"
	for _, c := range []struct{ lora, ops, trained string }{
		{"r=2,targets=q_proj", "linear type_as linear linear mul add to_compute", a + " " + b},
		{
			`r=2,targets='h\.\d{1,2}\.q_proj',dropout=0.1,bias=all,alpha=32`,
			"linear type_as dropout linear linear mul add to_compute", "h.0.q_proj.bias " + a + " " + b,
		},
	} {
		plain := adaptable()
		got, err := Plan{LoRA: c.lora}.Apply(plain)
		if err != nil {
			t.Fatalf("%s: %v", c.lora, err)
		}
		var ops, params, trained []string
		for _, call := range got.Calls {
			ops = append(ops, call.Op)
		}
		for _, v := range got.Params {
			params = append(params, got.Values[v].Name)
		}
		for _, v := range got.State {
			if !got.Values[v].Frozen {
				trained = append(trained, got.Values[v].Name)
			}
		}
		if want := c.ops + " " + c.ops + " mul linear"; strings.Join(ops, " ") != want {
			t.Errorf("%s: calls %q, want %s", c.lora, ops, want)
		}
		order := "h.0.q_proj.weight " + a + " " + b + " h.0.q_proj.bias norm.weight head.weight"
		if strings.Join(params, " ") != order || strings.Join(trained, " ") != c.trained {
			t.Errorf("%s: parameters %q, of which %q train, want %s and %s", c.lora, params, trained, order, c.trained)
		}
		if len(plain.Calls) != 4 || len(plain.Params) != 4 || plain.Values[plain.Params[0]].Frozen {
			t.Errorf("%s: the program that was given is changed", c.lora)
		}
		rest := got.Calls[len(got.Calls)-2:]
		if before := got.Calls[len(got.Calls)-3]; before.Out[0] != rest[0].In[0] {
			t.Errorf("%s: what follows reads %d, the adapted layer makes %d", c.lora, rest[0].In[0], before.Out[0])
		}
	}
}

func TestLoRAThatIsNone(t *testing.T) {
	for lora, want := range map[string]string{
		"r=0,targets=a": "is not a rank", "targets=a": "r is missing", "r=4": "targets is missing",
		"r=4,targets=(":           "missing closing",
		"r=4,targets=a,dropout=1": "probability below 1", "r=4,targets=a,bias=some": "want one of none, all, lora_only",
		"q": "is not a setting", "rank=3": "unknown setting", "r=4,targets=a,alpha=x": "is not a number",
		"r=4,targets=a,base=nf4": "bitsandbytes stores are not simulated from a graph; record the step",
		"r=4,targets=v_proj":     `is the name of no linear layer, one is "head"`,
		"r=4,targets=.*":         `matches "norm", which is no linear layer`,
	} {
		if _, err := (Plan{LoRA: lora}).Apply(adaptable()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", lora, err, want)
		}
	}
	if err := (Plan{LoRA: "r=4,targets=a", Freeze: "b"}).Check(); err == nil {
		t.Error("two say which parameters train")
	}
}

// Calls share their arguments where these are none, or no more than in place: with any other they have their own.
func TestArgsKept(t *testing.T) {
	if (Args{}).Kept() != Plain || (Args{Inplace: true}).Kept() != inPlace {
		t.Error("plain arguments are not shared")
	}
	for i := range reflect.TypeFor[Args]().NumField() {
		a := Args{}
		v, name := reflect.ValueOf(&a).Elem().Field(i), reflect.TypeFor[Args]().Field(i).Name
		switch v.Kind() {
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int64:
			v.SetInt(1)
		case reflect.Uint8:
			v.SetUint(1)
		case reflect.Float64:
			v.SetFloat(1)
		case reflect.String:
			v.SetString("a")
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		default:
			t.Fatalf("field %s is of another kind", name)
		}
		if got := a.Kept(); got == Plain || got == inPlace && name != "Inplace" || !reflect.DeepEqual(*got, a) {
			t.Errorf("with %s alone %+v is kept", name, *got)
		}
		if again := a; !a.Same(&again) || a.Same(&Args{}) {
			t.Errorf("with %s alone arguments are the same as none, or not as themselves", name)
		}
	}
	if !reflect.DeepEqual(*Plain, Args{}) {
		t.Error("somebody wrote to the shared arguments")
	}
}
