package recover_test

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover"
)

// Of a product both of whose arguments come from what dropout may follow, the first is dropped out: that its value is
// new is no reason to look for it among the old ones.
func TestDropoutOfTwoArguments(t *testing.T) {
	var p program.Program
	value := func(k program.ValueKind) program.ValueID {
		return p.Add(program.Value{Kind: k, DType: program.Float32, Shape: []int64{4, 4}})
	}
	scores, hidden := value(program.InputValue), value(program.InputValue)
	weights, active, product := value(program.Activation), value(program.Activation), value(program.Activation)
	p.Calls = []program.Call{
		{Op: "softmax", In: []program.ValueID{scores}, Out: []program.ValueID{weights}, Args: program.Plain},
		{Op: "relu", In: []program.ValueID{hidden}, Out: []program.ValueID{active}, Args: program.Plain},
		{Op: "matmul", In: []program.ValueID{weights, active}, Out: []program.ValueID{product}, Args: program.Plain},
	}
	other, places := recover.WithDropout(&p)
	if places != 1 || len(other.Calls) != 4 {
		t.Fatalf("%d places: %+v", places, other.Calls)
	}
	if dropout := other.Calls[2]; dropout.Op != "dropout" || other.Calls[3].In[0] != dropout.Out[0] {
		t.Errorf("%+v", other.Calls)
	}
}
