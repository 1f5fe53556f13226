package torch

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
)

// Every operator is given no tensor, one, and so on to one more than it can have, each of them left out, a number, or
// of another rank or type. What aten.Program.Fits lets through runs, forward and backward, or is refused: no rule
// panics.
func TestEveryCallThatFits(t *testing.T) {
	shapes := [][]int64{{2, 4, 6, 6}, {}, {4}, {2, 4}, {2, 3, 4}, {0, 4}}
	ran, misfits := 0, 0
	for _, room := range opTables {
		for _, row := range room {
			of, example := program.Of(row.name), examples[row.name]
			most := of.Most
			if most > 8 { // any number
				most = max(of.Least, len(example.in)) + 1
			}
			for n := range most + 2 {
				for slot := -1; slot < n; slot++ {
					for k := range len(shapes) + 3 { // which the one in the slot is
						for _, args := range []program.Args{{}, example.args} {
							p := &program.Program{
								Values: []program.Value{{Kind: program.None}, {Name: "y", DType: f32,
									Shape: args.Shape}}, Outputs: []program.ValueID{1}, Layers: []string{"layer"}, Origins: 1,
								Scopes: []program.Scope{{Parent: -1}},
							}
							call := program.Call{Op: row.name, Args: &args, Out: []program.ValueID{1}}
							for i := range n {
								v := program.Value{Name: "x", Kind: program.Parameter, DType: f32, Shape: shapes[0]}
								if i < len(example.in) {
									v.Shape, v.DType = example.in[i].shape, example.in[i].dtype
								}
								if i == slot && k < len(shapes) {
									v.Shape = shapes[k]
								}
								switch {
								case i == slot && k == len(shapes):
									call.In = append(call.In, program.NoValue)
									continue
								case i == slot && k == len(shapes)+1 && of.Is(program.TakesNumbers):
									v.Kind = program.Number
								case i == slot && k == len(shapes)+2:
									v.DType = program.Bool
								}
								if v.Kind == program.Parameter && !v.DType.IsFloat() {
									v.Kind = program.Buffer
								}
								id := p.Add(v)
								call.In = append(call.In, id)
								switch v.Kind {
								case program.Parameter:
									p.Params = append(p.Params, id)
									fallthrough
								case program.Buffer:
									p.State = append(p.State, id)
								}
							}
							if !p.Fits(&call) {
								misfits++
								continue
							}
							p.Calls = []program.Call{call}
							ran++
							tryCall(t, p, slot, k)
						}
					}
				}
			}
		}
	}
	t.Logf("%d calls, and %d that do not fit", ran, misfits)
	if ran < 2000 || misfits < 2000 {
		t.Errorf("only %d calls, and %d that do not fit", ran, misfits)
	}
}

func tryCall(t *testing.T, p *program.Program, slot, kind int) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s of %d tensors, number %d of kind %d: %v at\n%s", p.Calls[0].Op, len(p.Calls[0].In), slot, kind, r,
				debug.Stack())
		}
	}()
	_, err := Simulate(p, Options{Train: true, Settings: Settings{Loss: "mean"}})
	if err != nil && strings.Contains(err.Error(), "is read before a call makes it") {
		t.Error(err)
	}
}
