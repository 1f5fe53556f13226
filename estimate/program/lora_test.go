package program

import (
	"strings"
	"testing"
)

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
