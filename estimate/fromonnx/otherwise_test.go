package fromonnx_test

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/aten"
	"github.com/memestimate/memestimate/estimate/fromonnx"
)

// Of a product both of whose arguments come from what dropout may follow, the first is dropped out: that its value is
// new is no reason to look for it among the old ones.
func TestDropoutOfTwoArguments(t *testing.T) {
	var p aten.Program
	value := func(k aten.ValueKind) aten.ValueID {
		return p.Add(aten.Value{Kind: k, DType: aten.Float32, Shape: []int64{4, 4}})
	}
	scores, hidden := value(aten.InputValue), value(aten.InputValue)
	weights, active, product := value(aten.Activation), value(aten.Activation), value(aten.Activation)
	p.Calls = []aten.Call{
		{Op: "softmax", In: []aten.ValueID{scores}, Out: []aten.ValueID{weights}, Args: aten.Plain},
		{Op: "relu", In: []aten.ValueID{hidden}, Out: []aten.ValueID{active}, Args: aten.Plain},
		{Op: "matmul", In: []aten.ValueID{weights, active}, Out: []aten.ValueID{product}, Args: aten.Plain},
	}
	other, places := fromonnx.WithDropout(&p)
	if places != 1 || len(other.Calls) != 4 {
		t.Fatalf("%d places: %+v", places, other.Calls)
	}
	if dropout := other.Calls[2]; dropout.Op != "dropout" || other.Calls[3].In[0] != dropout.Out[0] {
		t.Errorf("%+v", other.Calls)
	}
}
