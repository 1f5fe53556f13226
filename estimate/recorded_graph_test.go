package estimate

import (
	"math"
	"testing"
)

// guessedLifetimes are the built-in models of which a graph does not say how long the variables of their forward
// functions live: in inference the recording, which knows, may be up to this far off, in percent.
var guessedLifetimes = map[string]float64{
	"unet": 6.5, "t5_small": 2, "distilbert": 2, "dlrm": 1, "torch_encoder": 1,
}

// A built-in model says the same as its recording, within half a percent. All of them, from a folder of recordings of
// the zoo:
//
//	go test ./estimate -run RecordedGraphs -v -recordings DIR -recordings.truth steps.json
func TestRecordedGraphs(t *testing.T) {
	cases, within := 0, 0
	for _, c := range recordedCases(t) {
		m := c.measured
		if m.OOM || m.CapMiB > 0 {
			continue
		}
		oracle, _, err := replayRecording(openRecordingAt(t, c.file), Step{AllocConf: m.AllocConf})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		bound, err := Bind(open(t, m.Model), Options{Batch: m.Batch})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		sim, err := bound.Simulate(m.step())
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		off := 100 * (float64(sim.Peak.Allocated)/float64(oracle.Peak.Allocated) - 1)
		cases++
		if math.Abs(off) <= 0.5 {
			within++
			continue
		}
		t.Logf("%-50s %+.2f %%", c.name, off)
		if limit := guessedLifetimes[m.Model]; m.Mode != "infer" || math.Abs(off) > limit {
			t.Errorf("%s: the graph gives %d, the recording %d: %+.2f %%",
				c.name, sim.Peak.Allocated, oracle.Peak.Allocated, off)
		}
	}
	t.Logf("%d of %d within 0.5 %%", within, cases)
	if cases == 0 {
		t.Error("nothing was compared")
	}
}
