package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/snapshot"
	"github.com/memestimate/memestimate/snapshot/compare"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

// recorded is the folder of the recorded snapshots.
const recorded = "../../snapshot/testdata"

func pickle(name string) string { return filepath.Join(recorded, name+".pickle.gz") }

// call runs the program and wants an exit code.
func call(t *testing.T, stdin []byte, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	e := &env{stdin: bytes.NewReader(stdin), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
	if got := run(context.Background(), e, args); got != code {
		t.Fatalf("%q: exit code %d, want %d\n%s", args, got, code, errs.String())
	}
	return out.String(), errs.String()
}

func callJSON(t *testing.T, to any, args ...string) {
	t.Helper()
	out, _ := call(t, nil, exitOK, append(args, "--format", "json")...)
	if err := json.Unmarshal([]byte(out), to); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
}

// show and replay give what PyTorch reported with each file.
func TestSnapshotShowAndReplay(t *testing.T) {
	paths, err := filepath.Glob(pickle("*"))
	if err != nil || len(paths) != 9 {
		t.Fatal(paths, err)
	}
	for _, p := range paths {
		var want struct {
			Allocated    int64          `json:"memory_allocated"`
			MaxAllocated int64          `json:"max_memory_allocated"`
			Reserved     int64          `json:"memory_reserved"`
			MaxReserved  int64          `json:"max_memory_reserved"`
			Actions      map[string]int `json:"actions"`
		}
		b := must.Read(t, strings.TrimSuffix(p, ".pickle.gz")+".json")
		must.OK(t, json.Unmarshal(b, &want))
		var show showJSON
		callJSON(t, &show, p) // as "snapshot show" says it
		if len(show.Devices) != 1 {
			t.Fatalf("%s: %d devices", p, len(show.Devices))
		}
		d := show.Devices[0]
		if d.PeakAllocated == nil && filepath.Base(p) == "mem_track_0.pickle.gz" { // nothing was allocated yet
			d.PeakAllocated, d.PeakReserved = new(snapshot.Peak), new(snapshot.Peak)
		}
		if d.Allocated != want.Allocated || d.Reserved != want.Reserved || d.PeakAllocated.Bytes != want.MaxAllocated ||
			d.PeakReserved.Bytes != want.MaxReserved || !d.Exact {
			t.Errorf("%s: %+v, PyTorch says %+v", p, d, want)
		}
		for a, n := range want.Actions {
			if a != "snapshot" && d.Actions[a] != n {
				t.Errorf("%s: %d %s events, PyTorch says %d", p, d.Actions[a], a, n)
			}
		}
	}
}

// An out-of-memory event is told with what was in use and what stood against it.
func TestSnapshotOOM(t *testing.T) {
	out, _ := call(t, nil, exitOK, "snapshot", "show", pickle("oom"))
	for _, want := range []string{
		"out of memory at event 42: train.py:55:<module> asked for 100.00 MiB, with 1.31 GiB allocated and " +
			"1.33 GiB reserved\n",
		"the device had 136.17 GiB free, so a limit on the process stood against it\n",
		"cause: leak: train.py:55:<module> made 26 allocations, one after the other, and none was freed",
		"1.31 GiB  in 26  train.py:55:<module>, forward\n",
		"21.00 MiB  in 3 pieces of at most 17.00 MiB, of the default stream: the request may have it\n",
		"  no  not splitting blocks from 128 MiB on (max_split_size_mb:128)\n",
		" yes  freeing what train.py:55:<module> holds\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// Where the memory of the peak was asked for is said, the largest place first.
func TestSnapshotPlaces(t *testing.T) {
	var show showJSON
	callJSON(t, &show, "snapshot", "show", pickle("resnet50_seed"))
	places := show.Devices[0].Places
	var sum int64
	for _, g := range places {
		sum += g.Bytes
	}
	if len(places) != 9 || places[2].Label != "optim/sgd.py:455:_multi_tensor_sgd" || places[2].Bytes != 105115648 ||
		sum != 449816064 {
		t.Errorf("%d places with %d bytes in all: %+v", len(places), sum, places)
	}
	out, _ := call(t, nil, exitOK, "snapshot", "show", pickle("resnet50_seed"))
	if want := "  100.25 MiB  in 161  optim/sgd.py:455:_multi_tensor_sgd\n"; !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}

// Each file of testdata/odd says what it is about.
func TestSnapshotOdd(t *testing.T) {
	odd := func(name string) string { return filepath.Join(recorded, "odd", name+".pickle") }
	for _, c := range []struct{ file, want string }{
		{"oomfrag", "cause: other stream: stream 0x7 has 196.00 MiB cached, in pieces of up to 98.00 MiB, which the " +
			"request on stream 0x0 may not have"},
		{"oom_cached_other_stream", "200.00 MiB  in 1 piece of at most 200.00 MiB, of stream 0x7: not for this request"},
		{"pending_before_trace", "peak          unknown: no events were recorded"},
		{"empty_trace", "peak          unknown: no events were recorded"},
		{"no_devices", "allocated        12.00 MiB       12,582,912 B  in 1 block\n"},
		{"list-of-segments", "reserved         20.00 MiB       20,971,520 B  in 1 segment\n"},
		{"torch2.0_history_no_trace", "requested        12.00 MiB       12,582,812 B"},
		{"docs_state_active_awaiting_free", "of them wait for another stream"},
	} {
		if out, _ := call(t, nil, exitOK, "snapshot", "show", odd(c.file)); !strings.Contains(out, c.want) {
			t.Errorf("%s: no %q in\n%s", c.file, c.want, out)
		}
	}
}

// Failures in a loop are told once.
func TestSnapshotManyOOMs(t *testing.T) {
	failures := slices.Repeat([]snapshot.Entry{{Action: snapshot.OOM, Addr: 1 << 20, Size: 2 << 20}}, 500)
	asked := []timeline.Event{{Kind: timeline.Alloc, Bytes: 2 << 20}}
	sites := &snapshot.Sites{Of: []int32{0}, Stack: func(int32) []snapshot.Frame {
		return []snapshot.Frame{{Name: "retry", File: "/home/u/serve.py", Line: 7}}
	}}
	var file bytes.Buffer
	must.OK(t, snapshot.WritePredicted(&file, nil, slices.Values(asked), slices.Values(failures), nil, "", "", sites))
	out, _ := call(t, file.Bytes(), exitOK, "snapshot", "show", "-")
	if !strings.Contains(out, "and 499 times more at this place, until event 499") || strings.Count(out, "\n") > 60 {
		t.Errorf("show says\n%s", out)
	}
}

// Every failure is one line, with the code for its kind.
func TestSnapshotErrors(t *testing.T) {
	dir := t.TempDir()
	evil := filepath.Join(dir, "evil.pickle")
	must.OK(t, os.WriteFile(evil, []byte("\x80\x02cos\nsystem\nX\x02\x00\x00\x00lsR."), 0o600))
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "no command given", nil},
		{exitUsage, "unknown command", []string{"look"}},
		{exitUsage, "no FILE given", []string{"show"}},
		{exitInput, "no such file", []string{"show", filepath.Join(dir, "none")}},
		{exitInput, "is a folder", []string{"show", dir}},
		{exitInput, `asks for "os.system"; refusing`, []string{"show", evil}},
		{exitInput, "empty file", []string{"show", "-"}},
		{exitUsage, "oom.pickle.gz: --device 3, but it has 1 device, from 0 on",
			[]string{"html", pickle("oom"), "--device", "3"}},
		{exitUsage, "only one of the files can be standard input", []string{"html", "-", "-"}},
		{exitUsage, "format", []string{"show", pickle("oom"), "--format", "csv"}},
	} {
		out, errs := call(t, nil, c.code, append([]string{"snapshot"}, c.args...)...)
		if !strings.Contains(errs, c.want) || out != "" || !strings.HasPrefix(errs, "memestimate: ") {
			t.Errorf("%q: says %q, and prints %q; wanted %q", c.args, errs, out, c.want)
		}
	}
	data := must.Read(t, pickle("oom"))
	if out, _ := call(t, data, exitOK, "snapshot", "show", "-"); !strings.Contains(out, "1,404,043,264 B") {
		t.Errorf("from standard input:\n%s", out)
	}
}

// Settings that a newer PyTorch may have keep nobody from being told why memory ran out; only what would have helped
// is left out.
func TestSnapshotUnknownSettings(t *testing.T) {
	const conf = "PYTORCH_CUDA_ALLOC_CONF\x94"
	file := testfile.Unzipped(t, filepath.Join(recorded, "oom", "leak.pickle.gz"))
	file = bytes.Replace(file, []byte(conf+"j\x13\x03\x00\x00"), []byte(conf+"\x8c\x10of_tomorrow:True"), 1)
	out, _ := call(t, file, exitOK, "snapshot", "show", "-")
	for _, want := range []string{"out of memory at event ", "cause: leak: ",
		"  what would have helped was not tried by replay: its settings are not understood: ", `"of_tomorrow"`} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
	page, _ := call(t, file, exitOK, "snapshot", "html", "-")
	if !strings.Contains(page, "its settings are not understood: ") {
		t.Error("the page does not say why nothing was tried")
	}
}

// A recording of PyTorch's tutorial, resnet50 with one image: the prediction is close, and the
// parameters that were there before the recording are told to be unknown.
func TestCompareMeasured(t *testing.T) {
	var out, errs bytes.Buffer
	e := &env{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
	code := run(t.Context(), e, []string{"compare", "resnet50", "../../snapshot/testdata/resnet50_seed.pickle.gz",
		"--batch", "1", "--optimizer", "sgdm", "--format", "json"})
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	var c compare.Comparison
	must.OK(t, json.Unmarshal(out.Bytes(), &c))
	for _, d := range c.Peaks {
		if off := math.Abs(float64(d.Difference)) / float64(d.Measured); off > 0.03 ||
			d.Difference != d.Predicted-d.Measured {
			t.Errorf("%s: predicted %d, measured %d", d.Name, d.Predicted, d.Measured)
		}
	}
	if c.Peaks[0].Measured != 449816064 || c.Peaks[1].Measured != 478150656 {
		t.Errorf("measured %+v", c.Peaks)
	}
	known := map[string]compare.Difference{}
	for _, d := range append(c.Categories, c.Phases...) {
		known[d.Name] = d
	}
	if d := known["optimizer_state"]; d.Difference != 0 || d.Measured != 102228128 {
		t.Errorf("the momentum is %+v", d)
	}
	if d := known["last backward"]; d.Measured == 0 || math.Abs(float64(d.Difference)) > 0.03*float64(d.Measured) {
		t.Errorf("the last backward pass is %+v", d)
	}
	if len(c.Notes) == 0 || len(c.Tensors) == 0 || len(c.Layers) != 0 {
		t.Errorf("%d notes, %d sizes, %d layers", len(c.Notes), len(c.Tensors), len(c.Layers))
	}
	// Of the first step nearly everything is alike. The convolutions that cuDNN gave another algorithm part first: before
	// layer2.0.bn3 one took a workspace of 480 bytes that is not predicted.
	switch k := c.Course; {
	case k == nil || k.PredictedStep != 1 || k.MeasuredStep != 1 || k.Measured != 1495 || 10*k.Alike < 9*k.Predicted:
		t.Errorf("the step is %+v", k)
	case k.First == nil || k.First.MeasuredEvent != 69 || k.First.Phase != "forward" ||
		k.First.Layer != "layer2.0.bn3" || k.First.Site != "modules/conv.py:548:_conv_forward" ||
		k.First.PredictedMost != 0 || k.First.MeasuredMost != 480:
		t.Errorf("the runs part first at %+v", k.First)
	case len(k.Partings) != compare.MostGaps || len(k.Modules) < 100:
		t.Errorf("%d places, %d modules", len(k.Partings), len(k.Modules))
	}
	for i := 1; i < len(c.Tensors); i++ {
		if math.Abs(float64(c.Tensors[i].Difference)) > math.Abs(float64(c.Tensors[i-1].Difference)) {
			t.Errorf("disagreement %d is larger than the one before", i)
		}
	}
}

// A recording of nothing is no measurement: nothing is said to be far off, or learnt from it.
func TestCompareWithNothing(t *testing.T) {
	empty := []byte("\x80\x02}(X\x08\x00\x00\x00segments]X\x0d\x00\x00\x00device_traces](]eu.")
	out, errs := call(t, empty, exitInput, "compare", "mlp", "-", "--batch", "2")
	if out != "" || errs != "memestimate: -: it shows no allocation of device 0: there is nothing to compare with\n" {
		t.Errorf("%q, %q", out, errs)
	}
}

// Of a model so large that its run is set aside where nobody asks for it, a comparison does.
func TestCompareLarge(t *testing.T) {
	const nodes = 20_000
	g := Graph{In: []Value{Float("x0", 4)}, Out: []Value{{Name: fmt.Sprint("x", nodes)}}}
	for i := range nodes {
		g.Nodes = append(g.Nodes, Op("Neg", fmt.Sprint("x", i), fmt.Sprint("x", i+1)))
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	write(t, path, string(Model{Opset: 17, Graph: g}.Bytes()))
	out, _ := call(t, nil, exitOK, "compare", path, filepath.Join(recorded, "odd", "oomfrag.pickle"))
	if !strings.Contains(out, "peak") {
		t.Errorf("%.300s", out)
	}
}
