package estimate

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

// The comparison of recordings with what was measured. All of a folder with an index.json:
//
//	go test ./estimate -run RecordedAccuracy -v -recordings DIR -recordings.truth steps.json,more.json
var (
	recordings      = flag.String("recordings", "testdata/recordings", "a folder of recordings with an index.json")
	recordingsTruth = flag.String("recordings.truth", "testdata/truth/steps.json.gz,testdata/truth/variants.json.gz",
		"the measured cases, comma-separated")
)

// A recordedCase is a recording and what was measured of the same run.
type recordedCase struct {
	name     string
	file     string
	kind     string // mode and dtype
	measured variantCase
}

// recordedCases pairs the recordings of a folder with measured cases: all fields of the index but the file's must be
// the same.
func recordedCases(t *testing.T) (out []recordedCase) {
	t.Helper()
	var index []map[string]any
	testfile.JSON(t, filepath.Join(*recordings, "index.json"), &index)
	var measured []json.RawMessage
	for file := range strings.SplitSeq(*recordingsTruth, ",") {
		measured = append(measured, rawCases(t, file)...)
	}
	fields := make([]map[string]any, len(measured))
	for i := range measured {
		must.OK(t, json.Unmarshal(measured[i], &fields[i]))
	}
	// What tells cases apart; a field that is missing is one at its default.
	keys := []string{"model", "mode", "dtype", "opt", "batch", "channels_last", "accum", "clip", "set_to_none", "foreach",
		"scaler", "alloc_conf", "cap_mib",
		"ckpt", "train_only", "lora", "lora_dropout", "compile", "par", "world", "mp", "reshard", "view"}
	usual := func(key string, v any) bool {
		switch key {
		case "set_to_none", "foreach", "reshard":
			return v == nil || v == true
		case "ckpt": // whether checkpoints are reentrant, of a run that has some
			return v == nil
		}
		return v == nil || v == false || v == 0.0 || v == ""
	}
	for _, entry := range index {
		file, _ := entry["file"].(string)
		found := false
		for i, f := range fields {
			if slices.ContainsFunc(keys, func(k string) bool {
				return entry[k] != f[k] && !(usual(k, entry[k]) && usual(k, f[k]))
			}) {
				continue
			}
			c := recordedCase{name: strings.TrimSuffix(file, ".mrec"), file: filepath.Join(*recordings, file)}
			must.OK(t, json.Unmarshal(measured[i], &c.measured))
			c.kind = c.measured.Mode + " " + c.measured.DType
			out, found = append(out, c), true
			break
		}
		if !found {
			t.Logf("%s: nothing of it was measured", file)
		}
	}
	return out
}

// rawCases reads the cases of a file of measurements, compressed or not.
func rawCases(t *testing.T, file string) []json.RawMessage {
	t.Helper()
	var all struct {
		Cases []json.RawMessage `json:"cases"`
	}
	testfile.JSON(t, file, &all)
	return all.Cases
}

// errors are how far off the estimates of some cases are, in percent.
type offBy struct {
	allocated, reserved, device, above []float64
	held, bounded                      int
}

func (o *offBy) add(other offBy) {
	o.allocated, o.reserved = append(o.allocated, other.allocated...), append(o.reserved, other.reserved...)
	o.device, o.above = append(o.device, other.device...), append(o.above, other.above...)
	o.held += other.held
	o.bounded += other.bounded
}

// at returns the value below which a share of the values lie.
func at(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	return values[min(int(share*float64(len(values))), len(values)-1)]
}

func (o *offBy) String() string {
	three := func(v []float64) string {
		return fmt.Sprintf("%6.3f %6.3f %6.2f", at(v, 0.5), at(v, 0.9), at(v, 1))
	}
	return fmt.Sprintf("%4d  allocated %s  reserved %s  device %s  bound holds in %d of %d, %.1f %% above",
		len(o.allocated),
		three(o.allocated), three(o.reserved), three(o.device), o.held, o.bounded, at(o.above, 0.5))
}

func TestRecordedAccuracy(t *testing.T) {
	kinds := map[string]*offBy{}
	for _, c := range recordedCases(t) {
		m := c.measured
		if m.OOM {
			continue
		}
		rec := openRecordingAt(t, c.file)
		step := Step{AllocConf: m.AllocConf, MemoryLimit: m.CapMiB << 20}
		sim, run, err := replayRecording(rec, step)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		percent := func(got, want int64) float64 { return 100 * (float64(got)/float64(want) - 1) }
		held := sim.Peak.Reserved
		if m.CapMiB > 0 { // the peak was measured anew after the last release
			held = sim.Replay.End.Reserved
		}
		allocated, reserved := percent(sim.Peak.Allocated, m.PeakAlloc), percent(held, m.PeakReserved)
		o := offBy{allocated: []float64{math.Abs(allocated)}, reserved: []float64{math.Abs(reserved)}}
		device := m.PeakReserved
		if m.SMI > 0 {
			device = m.SMI << 20
			o.device, o.bounded = []float64{math.Abs(percent(sim.Peak.Device, device))}, 1
			if sim.Peak.UpperBound >= device {
				o.held = 1
			}
			o.above = []float64{percent(sim.Peak.UpperBound, device)}
		}
		if *recordings == "testdata/recordings" && (math.Abs(allocated) > 0.02 || math.Abs(reserved) > 0.3 ||
			o.held < o.bounded) {
			t.Errorf("%s: allocated %.3f %%, reserved %.3f %% off, at most %d of %d measured", c.name, allocated, reserved,
				sim.Peak.UpperBound, device)
		}
		if *recordings != "testdata/recordings" {
			floor := upperBound(sim, caching.Config{}, headroom{}) - spareBytes // what the bound would be without any room
			t.Logf("%-60s allocated %8.3f %%  reserved %8.3f %%  device %8.3f %%  above the replays %5.1f MiB%s",
				c.name, allocated, reserved, percent(sim.Peak.Device, device), float64(device-floor)/(1<<20), phasesOff(c, sim))
			for op, n := range run.Unknown {
				t.Logf("    unknown: %s, %d calls", op, n)
			}
		}
		if kinds[c.kind] == nil {
			kinds[c.kind] = new(offBy)
		}
		kinds[c.kind].add(o)
	}
	var all offBy
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t.Logf("%-16s %s", kind, kinds[kind])
		all.add(*kinds[kind])
	}
	t.Logf("%-16s %s", "all", &all)
	if len(all.allocated) == 0 {
		t.Error("no recording was compared")
	}
}

// phasesOff says where a run differs from what was measured at the ends of its phases.
func phasesOff(c recordedCase, sim *Simulation) string {
	words := map[string]string{"forward": "fwd", "loss": "loss", "backward": "bwd", "optimizer": "opt"}
	var b strings.Builder
	for _, s := range sim.Replay.Spans {
		word := words[s.Phase.String()]
		if word == "" || s.Step < 1 || int(s.Step) > min(2, len(c.measured.Steps)) {
			continue
		}
		m := c.measured.Steps[s.Step-1]
		end, peak := s.End.Allocated-m[word], s.PeakAllocated.Allocated-m["peak_"+word]
		if cmp.Or(end, peak) != 0 {
			fmt.Fprintf(&b, " | %d%s %+d, peak %+d", s.Step, word, end, peak)
		}
	}
	return b.String()
}
