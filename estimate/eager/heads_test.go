package eager

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/aten"
)

// twoHeads is a linear layer, whose rectified result is the first output, and a second one on that.
func twoHeads() *aten.Program {
	p := &aten.Program{Layers: []string{"m"}, Scopes: []aten.Scope{{Parent: -1}}}
	add := func(k aten.ValueKind, shape ...int64) aten.ValueID {
		return p.Add(aten.Value{Kind: k, DType: aten.Float32, Shape: shape})
	}
	x, w, head := add(aten.InputValue, 8, 16), add(aten.Parameter, 16, 16), add(aten.Parameter, 4, 16)
	h, y, by := add(aten.Activation, 8, 16), add(aten.Activation, 8, 16), add(aten.Activation, 8, 4)
	p.Inputs, p.State, p.Params = []aten.ValueID{x}, []aten.ValueID{w, head}, []aten.ValueID{w, head}
	p.Outputs = []aten.ValueID{y, by}
	call := func(op string, out aten.ValueID, in ...aten.ValueID) {
		p.Calls = append(p.Calls, aten.Call{Op: op, In: in, Out: []aten.ValueID{out}, Args: aten.Plain,
			Origin: int32(len(p.Calls))})
	}
	call("linear", h, x, w, aten.NoValue)
	call("relu", y, h)
	call("linear", by, h, head, aten.NoValue)
	p.Origins = len(p.Calls)
	return p
}

// An output that nothing reads is in the loss, a hidden state is not, and a loss that the model works out is all of it.
func TestHeads(t *testing.T) {
	p := twoHeads()
	if h := headsOf(p, "auto"); !slices.Equal(h.at, []int{0, 1}) || len(h.guesses) != 1 || h.guesses[0].Row != EveryHead {
		t.Errorf("heads %v, guesses %v", h.at, h.guesses)
	}
	p.Without = map[string]bool{EveryHead: true}
	if h := headsOf(p, "auto"); !slices.Equal(h.at, []int{0}) || h.guesses != nil {
		t.Errorf("the first alone: heads %v, guesses %v", h.at, h.guesses)
	}
	p.Without = nil
	p.Outputs = append(p.Outputs, p.Calls[0].Out[0])
	if h := headsOf(p, "auto"); !slices.Equal(h.at, []int{0, 1}) {
		t.Errorf("beside a hidden state: heads %v", h.at)
	}
	loss := p.Add(aten.Value{Kind: aten.Activation, DType: aten.Float32})
	p.Calls = append(p.Calls, aten.Call{Op: "mean", In: []aten.ValueID{p.Outputs[1]}, Out: []aten.ValueID{loss},
		Args: aten.Plain})
	p.Outputs[1] = loss
	if h := headsOf(p, "auto"); !slices.Equal(h.at, []int{1}) {
		t.Errorf("the model's own loss: heads %v", h.at)
	}
	if h := headsOf(p, "mse"); !slices.Equal(h.at, []int{0, 1}) {
		t.Errorf("a criterion that is named: heads %v", h.at)
	}
}

func TestEveryHeadTrains(t *testing.T) {
	saved := map[bool]int64{}
	for _, first := range []bool{false, true} {
		p := twoHeads()
		p.Without = map[string]bool{EveryHead: first}
		run, err := Simulate(p, Options{Train: true})
		if err != nil {
			t.Fatal(err)
		}
		saved[first] = run.Saved
		if got := len(run.Guesses); (got == 1) == first {
			t.Errorf("the first output alone %v: %d guesses", first, got)
		}
		if run.Loss != "cross-entropy" {
			t.Errorf("the first output alone %v: loss %s", first, run.Loss)
		}
	}
	if saved[false] <= saved[true] {
		t.Errorf("both heads save %d bytes, the first alone %d", saved[false], saved[true])
	}
}

// The loss is of the output that can be trained, wherever it stands: here a chosen class comes first.
func TestLossOfWhatHasGradient(t *testing.T) {
	alone, err := Simulate(twoHeads(), Options{Train: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, without := range []bool{false, true} {
		p := twoHeads()
		p.Without = map[string]bool{EveryHead: without}
		class := p.Add(aten.Value{Kind: aten.Activation, DType: aten.Int64, Shape: []int64{8}})
		p.Calls = append(p.Calls, aten.Call{Op: "argmax", In: []aten.ValueID{p.Outputs[1]}, Out: []aten.ValueID{class},
			Args: &aten.Args{Dims: []int{1}}, Origin: int32(len(p.Calls))})
		p.Origins = len(p.Calls)
		p.Outputs = append([]aten.ValueID{class}, p.Outputs...)
		run, err := Simulate(p, Options{Train: true})
		if err != nil {
			t.Fatal(err)
		}
		if run.Loss != alone.Loss || run.Saved == 0 {
			t.Errorf("every head left out %v: loss %s, %d bytes saved", without, run.Loss, run.Saved)
		}
	}
}
