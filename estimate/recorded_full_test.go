package estimate

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/must"
)

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
