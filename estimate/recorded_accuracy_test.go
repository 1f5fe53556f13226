package estimate

import (
	"encoding/json"
	"flag"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

// kept has recordings that are held to what was measured. Others, made by scripts/measure/record_zoo.py, are compared:
//
//	go test ./estimate -run RecordedAccuracy -v -recordings DIR -recordings.truth steps.json,more.json
const kept = "testdata/recordings"

var (
	recordings      = flag.String("recordings", kept, "a folder of recordings with an index.json")
	recordingsTruth = flag.String("recordings.truth", "testdata/truth/steps.json.gz,testdata/truth/variants.json.gz",
		"the measured cases, comma-separated")
)

// A recordedCase is a recording and what was measured of the same run.
type recordedCase struct {
	name     string
	file     string
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

// A recording of a measured run allocates, reserves and is bound to what was measured.
func TestRecordedAccuracy(t *testing.T) {
	var allocated, reserved []float64 // errors, in percent
	for _, c := range recordedCases(t) {
		m := c.measured
		if m.OOM {
			continue
		}
		sim, _, err := replayRecording(openRecordingAt(t, c.file), Step{AllocConf: m.AllocConf, MemoryLimit: m.CapMiB << 20})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		held := sim.Peak.Reserved
		if m.CapMiB > 0 { // the peak was measured anew after the last release
			held = sim.Replay.End.Reserved
		}
		a, r := 100*math.Abs(rel(sim.Peak.Allocated, m.PeakAlloc)), 100*math.Abs(rel(held, m.PeakReserved))
		allocated, reserved = append(allocated, a), append(reserved, r)
		if a > 0.02 || r > 0.3 || sim.Peak.UpperBound < m.SMI<<20 {
			t.Logf("%s: allocated %.3f %%, reserved %.3f %% off, at most %d of %d measured", c.name, a, r,
				sim.Peak.UpperBound, m.SMI<<20)
			if *recordings == kept {
				t.Fail()
			}
		}
	}
	slices.Sort(allocated)
	slices.Sort(reserved)
	n := len(allocated)
	if n == 0 {
		t.Fatal("no recording was compared")
	}
	t.Logf("%d recordings, 90 %% allocated within %.3f %%, reserved within %.3f %%", n, allocated[n*9/10], reserved[n*9/10])
}
