package program

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// LoRA says which linear layers have an adapter of low rank, as peft's LoraConfig does.
type LoRA struct {
	Rank    int
	Targets string  // the last names of modules, or whole ones: see targeted
	Dropout float64 // lora_dropout
	Bias    string  // which of the model's own biases train beside: one of Biases, "" is none
}

// Biases are the values of LoraConfig.bias.
var Biases = []string{"none", "all", "lora_only"}

// largestRank is more than anybody gives an adapter.
const largestRank = 1 << 16

// ParseLoRA reads settings of LoraConfig by their names, as in "r=16,targets=q_proj|v_proj,dropout=0.05". Expressions
// may have commas.
func ParseLoRA(s string) (l LoRA, err error) {
	if s == "" {
		return l, nil
	}
	var parts []string
	for part := range strings.SplitSeq(s, ",") {
		key, _, ok := strings.Cut(part, "=")
		_, known := settings[key]
		if !ok || !known && len(parts) > 0 && strings.HasPrefix(parts[len(parts)-1], "targets=") {
			if len(parts) == 0 {
				return l, fmt.Errorf("lora: %q is not a setting, want one such as r=16", part)
			}
			parts[len(parts)-1] += "," + part
			continue
		}
		parts = append(parts, part)
	}
	for _, part := range parts {
		key, value, _ := strings.Cut(part, "=")
		set, ok := settings[key]
		if !ok {
			names := slices.Sorted(maps.Keys(settings))
			return l, fmt.Errorf("lora: unknown setting %q, want one of %s", key, strings.Join(names, ", "))
		}
		if err := set(&l, value); err != nil {
			return l, fmt.Errorf("lora: %s: %w", key, err)
		}
	}
	switch {
	case l.Rank == 0:
		return l, errors.New("lora: r is missing, the rank of the adapters, as in r=16")
	case l.Targets == "":
		return l, errors.New("lora: targets is missing: which modules have an adapter, as in targets=q_proj|v_proj")
	}
	return l, nil
}

// settings are those that ParseLoRA takes.
var settings = map[string]func(l *LoRA, value string) error{
	"r": func(l *LoRA, value string) (err error) {
		if l.Rank, err = strconv.Atoi(value); err != nil || l.Rank < 1 || l.Rank > largestRank {
			err = fmt.Errorf("%q is not a rank, want 1 to %d", value, largestRank)
		}
		return err
	},
	"targets": func(l *LoRA, value string) (err error) {
		l.Targets = strings.Trim(value, "'\"")
		return CheckPattern(l.Targets)
	},
	"alpha": func(_ *LoRA, value string) (err error) { // a factor: it costs no memory
		if _, err = strconv.ParseFloat(value, 64); err != nil {
			err = fmt.Errorf("%q is not a number", value)
		}
		return err
	},
	"dropout": func(l *LoRA, value string) (err error) {
		if l.Dropout, err = strconv.ParseFloat(value, 64); err != nil || !(l.Dropout >= 0 && l.Dropout < 1) {
			err = fmt.Errorf("%q is not a probability below 1", value)
		}
		return err
	},
	"bias": func(l *LoRA, value string) error {
		if l.Bias = value; !slices.Contains(Biases, value) {
			return fmt.Errorf("unknown %q, want one of %s", value, strings.Join(Biases, ", "))
		}
		return nil
	},
	"base": func(*LoRA, string) error { return errors.New("weights that bitsandbytes stores are " + recordIt) },
}

// targeted is the expression that modules with an adapter match: it is the whole of their name or of its end, so that
// a list of LoraConfig.target_modules and an expression of it both say the same here (check_target_module_exists of
// peft's tuners_utils.py).
func (l LoRA) targeted() *regexp.Regexp {
	return regexp.MustCompile(`\A(?:.*\.)?(?:` + l.Targets + `)\z`)
}

// A layer is one call of a linear layer.
type layer struct {
	first, last int32 // its calls: a Conv1D of transformers looks at its input and its result as matrices
	weight      ValueID
	in, out     ValueID
	wide, high  int64 // features in and out
}

// linearAt returns the linear layer whose product call i is.
func linearAt(p *Program, i int32) (l layer, ok bool) {
	c := &p.Calls[i]
	l = layer{first: i, last: i, out: c.Out[0]}
	switch {
	case c.Op == "linear":
		l.in, l.weight = c.In[0], c.In[1]
	case c.Op == "addmm" && i > 0 && int(i)+1 < len(p.Calls):
		l.in, l.weight = c.In[1], c.In[2]
		before, after := &p.Calls[i-1], &p.Calls[i+1]
		if before.Op == "reshape" && before.Out[0] == l.in && after.Op == "reshape" && after.In[0] == l.out {
			l.first, l.last, l.in, l.out = i-1, i+1, before.In[0], after.Out[0]
		}
	default:
		return l, false
	}
	if l.weight == NoValue || l.in == NoValue || l.out == NoValue {
		return l, false
	}
	w := &p.Values[l.weight]
	if w.Kind != Parameter || len(w.Shape) != 2 {
		return l, false
	}
	l.wide, l.high = w.Shape[1], w.Shape[0]
	if c.Op == "addmm" {
		l.wide, l.high = l.high, l.wide
	}
	return l, true
}

// adapt gives the targeted layers their adapters: Linear.forward of peft/tuners/lora/layer.py, one adapter, not
// merged.
func (l LoRA) adapt(prog *Program) error {
	targeted := l.targeted()
	old := prog.Calls
	prog.Calls = make([]Call, 0, len(old)+len(old)/4)
	prog.Values, prog.Scopes = slices.Clone(prog.Values), slices.Clone(prog.Scopes)
	a := adapters{LoRA: l, prog: prog, pairs: map[ValueID][2]ValueID{}}
	a.scaling = prog.Add(Value{Kind: Number, DType: Float32})
	someLinear, from := "", int32(0)
	linear := map[string]bool{} // modules that are linear layers
	base := *prog
	base.Calls = old
	for i := range old {
		y, ok := linearAt(&base, int32(i))
		if !ok {
			continue
		}
		module := moduleOf(prog.Values[y.weight].Name)
		linear[module] = true
		if !targeted.MatchString(module) {
			someLinear = module
			continue
		}
		prog.Calls = append(prog.Calls, old[from:y.first]...)
		a.call(old[y.first:y.last+1], y, module)
		from = y.last + 1
	}
	prog.Calls = append(prog.Calls, old[from:]...)
	for _, id := range base.State {
		v := &base.Values[id]
		if m := moduleOf(v.Name); v.Kind == Parameter && m != "" && !linear[m] && targeted.MatchString(m) {
			return noMatch("lora: targets %q matches %q, which is no linear layer: adapters of others are not simulated",
				l.Targets, m)
		}
	}
	if len(a.pairs) == 0 {
		if someLinear == "" {
			return noMatch("lora: the graph shows no linear layer of a parameter of its own, so none can have an adapter")
		}
		return noMatch("lora: targets %q is the name of no linear layer, one is %q", l.Targets, someLinear)
	}
	a.freeze()
	a.register()
	return nil
}

// moduleOf returns the name of the module that a parameter belongs to.
func moduleOf(parameter string) string {
	return parameter[:max(strings.LastIndexByte(parameter, '.'), 0)]
}

// adapters are what adapt has made so far.
type adapters struct {
	LoRA
	prog *Program
	// A and B, by the weight beside them: a module that is called twice has one pair
	pairs   map[ValueID][2]ValueID
	scaling ValueID
}

// call appends the calls of a layer with its adapter, which are in a module of their own.
func (a *adapters) call(base []Call, y layer, module string) {
	p := a.prog
	scope := base[0].Scope
	if p.Scopes[scope].Name != module {
		p.Scopes = append(p.Scopes, Scope{Name: module, Class: "lora.Linear", Parent: scope})
		scope = int32(len(p.Scopes) - 1)
	}
	pair, ok := a.pairs[y.weight]
	if !ok {
		adapter := func(name string, shape ...int64) ValueID {
			return p.Add(Value{Name: module + name, Kind: Parameter, DType: Float32, Shape: shape, Full: true})
		}
		r := int64(a.Rank)
		pair = [2]ValueID{adapter(lowRankA, r, y.wide), adapter(lowRankB, y.high, r)}
		a.pairs[y.weight] = pair
	}
	for _, c := range base {
		c.Scope = scope
		p.Calls = append(p.Calls, c)
	}
	like := base[len(base)-1]
	shape := p.Values[y.out].Shape
	narrow := append(slices.Clone(shape[:len(shape)-1]), int64(a.Rank))
	result := p.Add(Value{DType: Float32, Shape: shape})
	last := &p.Calls[len(p.Calls)-1]
	last.Out = slices.Clone(last.Out)
	last.Out[0] = result
	do := func(op string, args *Args, shape []int64, in ...ValueID) ValueID {
		out := p.Add(Value{DType: Float32, Shape: shape})
		c := like // its layer, origin and lines
		c.Op, c.In, c.Out, c.Args, c.Scope = op, in, []ValueID{out}, args, scope
		p.Calls = append(p.Calls, c)
		return out
	}
	x := do("type_as", Plain, p.Values[y.in].Shape, y.in, pair[0]) // _cast_input_dtype
	d := x
	if a.Dropout > 0 { // else it is an nn.Identity
		d = do("dropout", &Args{P: a.Dropout, Train: true}, p.Values[y.in].Shape, x)
	}
	down := do("linear", Plain, narrow, d, pair[0])
	up := do("linear", Plain, shape, down, pair[1])
	scaled := do("mul", Plain, shape, up, a.scaling)
	// result.to(torch_result_dtype); the name x has its value until the forward returns
	do("to_compute", Plain, shape, do("add", Plain, shape, result, scaled), x)
	p.Calls[len(p.Calls)-1].Out = []ValueID{y.out} // which others read
}

// What peft names the parameters of an adapter, after its module.
const (
	lowRankA = ".lora_A.default.weight"
	lowRankB = ".lora_B.default.weight"
)

func isAdapter(parameter string) bool {
	return strings.HasSuffix(parameter, lowRankA) || strings.HasSuffix(parameter, lowRankB)
}

// freeze is mark_only_adapters_as_trainable.
func (a *adapters) freeze() {
	for _, id := range a.prog.State {
		v := &a.prog.Values[id]
		v.Frozen = v.Kind == Parameter
		if v.Frozen && strings.HasSuffix(v.Name, "bias") {
			beside := slices.ContainsFunc(a.prog.State, func(w ValueID) bool {
				_, ok := a.pairs[w]
				return ok && moduleOf(a.prog.Values[w].Name) == moduleOf(v.Name)
			})
			v.Frozen = !(a.Bias == "all" || a.Bias == "lora_only" && beside)
		}
	}
}

// requireInputGrads is PreTrainedModel.enable_input_require_grads, which gradient_checkpointing_enable calls where a
// model has adapters (transformers/modeling_utils.py, peft_model.py): a hook on the embedding of the tokens, whose
// result is then a leaf, so that checkpointed blocks have an argument with a gradient.
func requireInputGrads(prog *Program) {
	ids := map[ValueID]bool{}
	for _, id := range prog.Inputs {
		ids[id] = true
	}
	for i := range prog.Calls {
		switch c := &prog.Calls[i]; {
		case Of(c.Op).Is(Look) && ids[c.In[0]]:
			ids[c.Out[0]] = true
		case Of(c.Op).Is(Table) && ids[c.In[1]]:
			prog.Values[c.Out[0]].Leaf = true // adapt has cloned them
		}
	}
}

// register makes the adapters part of the model: peft makes them once the model is on the GPU, module by module.
func (a *adapters) register() {
	p := a.prog
	params := make([]ValueID, 0, len(p.Params)+2*len(a.pairs))
	p.State = slices.Clip(p.State)
	for _, id := range p.Params {
		params = append(params, id)
		if pair, ok := a.pairs[id]; ok {
			params = append(params, pair[:]...)
			p.State = append(p.State, pair[:]...)
		}
	}
	p.Params = params
}
