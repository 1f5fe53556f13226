package estimate

import (
	"reflect"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/must"
)

// A step that is known to repeat the one before it is not simulated again. What comes of that is the same as
// what simulating every step gives, event by event, and it is the rule rather than the exception.
func TestRepeatedSteps(t *testing.T) {
	runs, repeated := 0, 0
	for i, name := range models.Names() {
		if !inTurn(i) || name == "conv_example" { // whose batch is fixed
			continue
		}
		b, err := Bind(open(t, name), Options{Batch: 2})
		must.OK(t, err)
		whole, err := b.Program(true)
		must.OK(t, err)
		for _, o := range []torch.Options{
			{},
			{Steps: 4, Settings: torch.Settings{Optimizer: "sgdm", ZeroGrads: true}},
			{Settings: torch.Settings{Optimizer: "muon", Precision: torch.BF16, ClipNorm: true}},
			{Steps: 5, Settings: torch.Settings{Optimizer: "adamw-fused", Precision: torch.AMPFP16, Scaler: true,
				Accumulate: 2}},
			{Settings: torch.Settings{Optimizer: "radam", ForLoop: true, DropOutput: true, ChannelsLast: true}},
			{Steps: 7, Settings: torch.Settings{Optimizer: "radam", ForLoop: true}}, // whose sixth step is another one
			{Settings: torch.Settings{Optimizer: "adafactor", Loss: "mean"}},
			{Settings: torch.Settings{Optimizer: "adam-fused", Precision: torch.AMPBF16}},
			{Settings: torch.Settings{Optimizer: "sgdm", Loss: "mse", ClipNorm: true}, Steps: 4},
			{Settings: torch.Settings{Loss: "none"}},
			{Settings: torch.Settings{Benchmark: true, Optimizer: "sgdm"}, Steps: 4},
			{Replicas: torch.Replicas{World: 2}, Steps: 4, Settings: torch.Settings{Benchmark: true, ChannelsLast: true}},
			{Replicas: torch.Replicas{World: 4}, Steps: 4},
			{Replicas: torch.Replicas{World: 2, View: true, Bucket: 5 << 20}, Steps: 4,
				Settings: torch.Settings{ZeroGrads: true}},
			{Replicas: torch.Replicas{World: 2}, Steps: 4, Settings: torch.Settings{Accumulate: 3}},
			{Replicas: torch.Replicas{World: 4, Partition: true}, Steps: 5, Settings: torch.Settings{Precision: torch.AMPBF16,
				ClipNorm: true}},
		} {
			o.Train = true
			p := whole
			short, err := torch.Simulate(p, o)
			if err != nil {
				continue // a loss that the model has no output for
			}
			runs++
			if short.Log.Written() < short.Log.Len() {
				repeated++
			}
			o.EveryStep = true
			long, err := torch.Simulate(p, o)
			must.OK(t, err)
			if o.Replicas.World > 1 {
				testLate(t, name, p, o, short)
			}
			got, want := short.Log.Timeline(), long.Log.Timeline()
			if got.Blocks != want.Blocks || !slices.Equal(got.Events, want.Events) {
				t.Errorf("%s under %+v: %d events with steps repeated, %d with each simulated, or others", name, o,
					len(got.Events), len(want.Events))
			}
			if err := short.Log.Source().Check(); err != nil {
				t.Errorf("%s under %+v: %v", name, o, err)
			}
			if short.Log.Blocks() != got.Blocks || short.Log.Len() != len(got.Events) {
				t.Errorf("%s under %+v: %d blocks and %d events, written out they are %d and %d", name, o, short.Log.Blocks(),
					short.Log.Len(), got.Blocks, len(got.Events))
			}
		}
	}
	// Not where a rule changes after five steps, nor where nothing runs backward and lets the graph's tensors go.
	if runs < 40 || repeated*10 < runs*7 {
		t.Errorf("%d of %d runs had steps repeated", repeated, runs)
	}
}

// testLate holds what a run would be, had NCCL let go of DDP's first bucket late, to simulating that.
func testLate(t *testing.T, model string, p *program.Program, o torch.Options, run *torch.Run) {
	o.Replicas.Late = true
	late, err := torch.Simulate(p, o)
	must.OK(t, err)
	got, want := run.Late().Timeline(), late.Log.Timeline()
	if got.Blocks != want.Blocks || !slices.Equal(got.Events, want.Events) {
		t.Errorf("%s under %+v: %d events with a late bucket, %d simulated with it, or others", model, o, len(got.Events),
			len(want.Events))
	}
	if slices.Equal(got.Events, run.Log.Timeline().Events) {
		t.Errorf("%s under %+v: a late bucket makes no difference", model, o)
	}
}

// A run that is replayed while it is simulated comes to what its replay from the beginning comes to.
func TestFollowed(t *testing.T) {
	for _, c := range []struct {
		model string
		step  Step
	}{
		{"qwen2_0_5b", Step{}},
		{"densenet121", Step{}},
		{"densenet121", Step{MemoryLimit: 600 << 20}}, // workspaces are given up
		{"densenet121", Step{MemoryLimit: 100 << 20}}, // it does not survive
		{"swin_t", Step{Settings: torch.Settings{Accumulate: 4, Optimizer: "muon"}}},
	} {
		b, err := Bind(open(t, c.model), Options{Batch: 4})
		must.OK(t, err)
		s, err := b.Simulate(c.step)
		must.OK(t, err)
		if n := s.Run.Log.Written(); n <= 1<<13 {
			t.Errorf("%s: %d events, too few to follow", c.model, n)
		}
		again, err := caching.NewReplayer(caching.Config{Limit: c.step.MemoryLimit,
			Total: gpu.Default().Memory}).Finish(s.Run.Log)
		must.OK(t, err)
		if !reflect.DeepEqual(came(s.Replay), came(again)) {
			t.Errorf("%s under %+v: followed %+v\nreplayed %+v", c.model, c.step, s.Replay.PeakAllocated,
				again.PeakAllocated)
		}
	}
}

// came is what a replay came to: all that its result says but for the allocator as it was left.
func came(r *caching.Result) (all []any) {
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Name != "Allocator" {
			all = append(all, v.Field(i).Interface())
		}
	}
	return all
}
