package estimate

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

func openRecording(t testing.TB, name string) *recording.Recording {
	t.Helper()
	return openRecordingAt(t, "../recording/testdata/"+name+".mrec")
}

func openRecordingAt(t testing.TB, path string) *recording.Recording {
	t.Helper()
	f, err := os.Open(path)
	must.OK(t, err)
	defer f.Close()
	r, err := recording.Read(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return r
}

// The sums of a recorded net are those of its modules: a convolution of 3 to 32 channels, a batch norm, and a linear
// layer of 8,192 to 100.
func TestRecorded(t *testing.T) {
	r, err := Recorded(openRecording(t, "net.b8"), Options{Name: "net"})
	must.OK(t, err)
	if want := int64(32*3*9 + 32 + 2*32 + 8192*100 + 100); r.Parameters.Count != want || r.Parameters.Bytes != 4*want ||
		r.Parameters.Tensors != 6 {
		t.Errorf("parameters %+v, want %d", r.Parameters, want)
	}
	if r.Buffers.Bytes != 2*32*4+8 {
		t.Errorf("buffers %+v", r.Buffers)
	}
	if r.Gradients.Bytes != r.Parameters.Bytes || r.Optimizer.Bytes != 2*r.Parameters.Bytes {
		t.Errorf("gradients %+v, states %+v of parameters %+v", r.Gradients, r.Optimizer, r.Parameters)
	}
	// Convolution and norm make 8x32x32x32 floats, pooling a quarter with int64 places, the head 8x100.
	if want := int64(2*8*32*32*32*4 + 8*32*16*16*(4+8) + 8*100*4 + 2*32*4); r.Activations.Forward != want {
		t.Errorf("activations %d, want %d", r.Activations.Forward, want)
	}
	if r.Peak.Phase != timeline.Backward.String() || r.Settings.Mode != "train" || !r.Coverage.Complete() {
		t.Errorf("peak %+v, settings %+v, coverage %+v", r.Peak, r.Settings, r.Coverage)
	}
	if r.Peak.ByCategory["workspace"] < 64<<20 {
		t.Errorf("workspaces %d, want those of cuBLAS in two threads", r.Peak.ByCategory["workspace"])
	}
}

// A recording that does not survive a limit says where it fails, and what it would take.
func TestRecordedLimit(t *testing.T) {
	rec := openRecording(t, "net.b100")
	free, err := Recorded(rec, Options{})
	must.OK(t, err)
	g := gpu.Other("small", free.Peak.Device-20<<20, gpu.Capability{Major: 9}, 132)
	r, err := Recorded(rec, Options{Step: &Step{GPU: g, Limited: true}})
	must.OK(t, err)
	if r.OOM == nil || r.Peak.Reserved != free.Peak.Reserved {
		t.Errorf("out of memory %+v, peak %d, want %d", r.OOM, r.Peak.Reserved, free.Peak.Reserved)
	}
}

// The largest batch of a family is where the next one fails.
func TestLargestRecorded(t *testing.T) {
	family, err := recording.NewFamily(openRecording(t, "net.b8"), openRecording(t, "net.b32"))
	must.OK(t, err)
	f, err := LargestRecorded(family, Options{}, 2<<30)
	must.OK(t, err)
	device := func(batch int64) int64 {
		rec, err := family.At(batch)
		must.OK(t, err)
		r, err := Recorded(rec, Options{})
		must.OK(t, err)
		return r.Peak.Device
	}
	if f.Batch < 100 || device(f.Batch) > 2<<30 || device(f.Batch+1) <= 2<<30 {
		t.Errorf("batch %d takes %d, one more %d of %d", f.Batch, device(f.Batch), device(f.Batch+1), 2<<30)
	}
}

// onT4 is a recording for a Tesla T4, of these lines.
func onT4(t *testing.T, benchmark bool, lines ...string) *recording.Recording {
	t.Helper()
	lines = append([]string{
		fmt.Sprintf(`{"format":"memestimate-recording/1","producer":"","torch":"","python":"","way":"fake-cuda","gpu":`+
			`{"name":"t4","capability":[7,5],"multiprocessors":40,"memory":15655829504},"world_size":1,"rank":0,`+
			`"alloc_conf":"","cudnn_benchmark":%t,"allow_tf32":true}`, benchmark),
		`["phase","forward"]`}, lines...)
	return endedRecording(t, lines)
}

// endedRecording reads a recording of these lines and of the one that ends it.
func endedRecording(t *testing.T, lines []string) *recording.Recording {
	t.Helper()
	lines = append(lines, fmt.Sprintf(`["end",%d]`, len(lines)-1))
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	fmt.Fprintln(w, strings.Join(lines, "\n"))
	w.Close()
	rec, err := recording.Read(&b)
	must.OK(t, err)
	return rec
}

// A program that catches that it is out of memory never takes more than the GPU has: what is cached goes back before
// the exception, and before a request that would not fit else. Where tensors fit and fragments do not, nobody knows
// what the program does: a note says so, and the figures do not fit either.
func TestCaughtOutOfMemory(t *testing.T) {
	const gb = 1 << 30
	const warned, caught = "it runs out of memory in the forward of step 1", "1 attempt of the program ran out of memory"
	full := `["out_of_memory",15655829504]`
	for _, c := range []struct {
		name     string
		lines    []string
		step     Step
		reserved int64 // GiB
		note     string
	}{
		{"not told", []string{`["alloc",0,9663676416]`, `["free",0]`, `["alloc",1,10737418240]`}, Step{}, 19, ""},
		{"told later", []string{`["alloc",0,9663676416]`, `["free",0]`, `["alloc",1,10737418240]`, full}, Step{}, 10,
			caught},
		{"cached blocks go back", []string{`["alloc",0,5368709120]`, `["free",0]`, full, `["alloc",1,6442450944]`}, Step{}, 6,
			caught},
		{"fragments", []string{`["alloc",0,6442450944]`, `["alloc",1,6442450944]`, full, `["alloc",2,2147483648]`}, Step{}, 0,
			warned},
		{"a part of the GPU", []string{`["alloc",0,3221225472]`, `["free",0]`, `["alloc",1,4294967296]`,
			`["out_of_memory",5368709120]`}, Step{}, 4, caught},
		{"on another GPU", []string{`["alloc",0,9663676416]`, `["free",0]`, `["alloc",1,10737418240]`, full},
			Step{GPU: device(t, "a100-80gb")}, 19, "with another memory it goes on otherwise"},
	} {
		r, err := Recorded(onT4(t, false, c.lines...), Options{Step: &c.step})
		must.OK(t, err)
		if c.reserved > 0 && r.Peak.Reserved != c.reserved*gb {
			t.Errorf("%s: %d bytes reserved, want %d GiB", c.name, r.Peak.Reserved, c.reserved)
		}
		over := max(r.Peak.Device, r.Peak.Safe, r.Peak.UpperBound) > 15655829504
		if told := r.Simulation.doubts.full.caught; told && over != (c.note == warned) {
			t.Errorf("%s: more is taken than the GPU has: %t: %+v", c.name, over, r.Peak)
		}
		noted := ""
		for _, n := range r.Notes {
			if strings.Contains(n.Text, "out of memory") || strings.Contains(n.Text, "otherwise") {
				noted = n.Text
			}
		}
		if c.note == "" && noted != "" || !strings.Contains(noted, c.note) {
			t.Errorf("%s: the note is %q, want %q", c.name, noted, c.note)
		}
	}
}

// The settings of a recording say that cuDNN searches, whether that was set before it began or after.
func TestRecordedBenchmark(t *testing.T) {
	const search = `["search","forward","float32",false,false,1,[4,8,9,9],[6,8,3,3],[4,6,9,9],[1,1],[1,1],54321,321]`
	for lines, want := range map[string]bool{"": false, "header": true, search: true} {
		var after []string
		if lines == search {
			after = append(after, lines)
		}
		r, err := Recorded(onT4(t, lines == "header", after...), Options{})
		if err != nil || r.Settings.Benchmark != want {
			t.Errorf("%q: %v, %v", lines, r.Settings.Benchmark, err)
		}
	}
}

func device(t *testing.T, id string) gpu.Device {
	t.Helper()
	d, err := gpu.Find(id)
	must.OK(t, err)
	return d
}

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
