package torch

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
)

// A model with a layer of 3 x 3 elements of its own and two wrapped layers, of 5 x 3 and 3 x 5, on two ranks: their
// first dimensions are padded to 4, 6 and 4 rows. What is gathered and what is reduced come in the order of FSDP2, on
// their streams.
func TestShardsAreGatheredInOrder(t *testing.T) {
	const own, first, second = 12, 18, 20 // elements, those of padding included
	for _, c := range []struct {
		shards   Shards
		gathered []int64 // of the first step, in order
		whole    int64   // the weights that are there when the forward pass ends
	}{
		{Shards{World: 2}, []int64{4 * own, 4 * first, 4 * second, 4 * second, 4 * first}, 4 * own},
		{Shards{World: 2, Keep: true}, []int64{4 * own, 4 * first, 4 * second}, 4 * (own + first + second)},
		{Shards{World: 2, Meta: true}, []int64{4 * own, 4 * first, 4 * second, 4 * second, 4 * first}, 4 * own},
		{
			Shards{World: 2, Param: program.BFloat16, Reduce: program.Float32}, // with what is cast before
			[]int64{own, 2 * own, first, 2 * first, second, 2 * second, second, 2 * second, first, 2 * first}, 2 * own,
		},
	} {
		run, err := Simulate(threeLayers(), Options{
			Settings: Settings{Optimizer: "sgd"}, Train: true, Shards: c.shards, Steps: 2, EveryStep: true,
		})
		must.OK(t, err)
		var gathered, parts []int64
		scattered, whole, loaded := int64(0), int64(0), int64(0)
		gone := map[int32]bool{}
		for _, e := range run.Log.Timeline().Events {
			switch {
			case e.Step > 1:
			case e.Kind == timeline.Free:
				if gone[e.Block] && e.Phase == timeline.Forward {
					whole -= e.Bytes
				}
			case e.Kind == timeline.Mark:
			case e.Stream == gatherStream:
				gathered = append(gathered, e.Bytes)
			case e.Stream == reduceStream:
				parts = append(parts, e.Bytes)
			case e.Category == timeline.Parameter && e.Phase == timeline.Load:
				loaded += e.Bytes
			case e.Category == timeline.Parameter && e.Phase == timeline.Forward:
				gone[e.Block] = true
				whole += e.Bytes
			case e.Category == timeline.Temporary && e.Phase == timeline.Backward:
				scattered += e.Bytes
			}
		}
		want := []int64{4 * second / 2, 4 * first / 2, 4 * own / 2}
		if !slices.Equal(gathered, c.gathered) || !slices.Equal(parts, want) || whole != c.whole {
			t.Errorf("%+v: gathered %v, parts %v, whole %d, want %v, %v, %d", c.shards, gathered, parts, whole, c.gathered,
				want, c.whole)
		}
		if want := int64(4 * (own + first + second)); scattered != want {
			t.Errorf("%+v: %d bytes are reduced, want %d", c.shards, scattered, want)
		}
		all := int64(4 * (own + first + second) / 2)
		if !c.shards.Meta {
			all += 4 * (9 + 15 + 15)
		}
		if loaded != all {
			t.Errorf("%+v: %d bytes of weights are loaded, want %d", c.shards, loaded, all)
		}
	}
}

func threeLayers() *program.Program {
	p := &program.Program{Scopes: []program.Scope{{Parent: -1}}, Layers: []string{"a"}, Origins: 1}
	at := p.Add(program.Value{Kind: program.InputValue, DType: program.Float32, Shape: []int64{2, 3}})
	p.Inputs = []program.ValueID{at}
	for i, shape := range [][]int64{{3, 3}, {5, 3}, {3, 5}} {
		w := p.Add(program.Value{Name: "w", Kind: program.Parameter, DType: program.Float32, Shape: shape})
		y := p.Add(program.Value{DType: program.Float32, Shape: []int64{2, shape[0]}})
		p.State, p.Params = append(p.State, w), append(p.Params, w)
		p.Calls = append(p.Calls, program.Call{Op: "linear", In: []program.ValueID{at, w}, Out: []program.ValueID{y},
			Args: program.Plain})
		if i > 0 {
			p.Groups = append(p.Groups, program.Group{Params: []program.ValueID{w},
				Spans: []program.Span{{First: int32(i), Last: int32(i)}}})
		}
		at = y
	}
	p.Groups = append(p.Groups, program.Group{Params: p.Params[:1]})
	p.Outputs = []program.ValueID{at}
	return p
}
