package estimate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/test/must"
)

// recordingOf is a recording of one tensor whose program asked for values, a line of each.
func recordingOf(t *testing.T, lines ...[]any) *recording.Recording {
	t.Helper()
	all := []string{`{"format":"memestimate-recording/1","gpu":{"name":"h200"}}`, `["frame",-1,"train.py",12,"main"]`,
		`["frame",0,"model.py",3,"forward"]`, `["alloc",0,4194304]`}
	for _, l := range lines {
		line, err := json.Marshal(append([]any{"depends"}, l...))
		must.OK(t, err)
		all = append(all, string(line))
	}
	return endedRecording(t, all)
}

// What a recording hangs on is said first, with its weight, and where.
func TestDependsOnData(t *testing.T) {
	truth, size := []any{"truth", "False", 3 << 30, 1}, []any{"size", "all of 8 elements", 1 << 20, 0}
	unknown := []any{"number", "1", -1, -1}
	for _, c := range []struct {
		lines [][]any
		want  string
	}{
		{[][]any{size}, "depends on data: 1 place, about 1.00 MiB"},
		{[][]any{size, truth}, "depends on data: 2 places, about 3.00 GiB"},
		{[][]any{size, unknown}, "depends on data: 2 places, 1.00 MiB or more"},
		{[][]any{unknown}, "depends on data: 1 place, not weighed"},
	} {
		r, err := Recorded(recordingOf(t, c.lines...), Options{})
		must.OK(t, err)
		if got := r.Depends.String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
		line := "warning " + r.Notes[0].Text
		if r.Notes[0].Level != Warning || !strings.HasPrefix(r.Notes[0].Text, c.want+"; --real ") || len(line) > 80 {
			t.Errorf("first note %+v, of %d characters on a screen", r.Notes[0], len(line))
		}
	}
	r, err := Recorded(recordingOf(t, size, unknown, truth), Options{})
	must.OK(t, err)
	places := r.Depends.Places
	if p := places[0]; p.File != "model.py" || p.Line != 3 || p.Question != "truth" || p.Taken != "False" ||
		*p.Bytes != 3<<30 {
		t.Errorf("the heaviest place is %+v", p)
	}
	if p := places[2]; p.File != "" || p.Question != "number" || p.Bytes != nil || r.Depends.Unweighed != 1 {
		t.Errorf("the place that is not weighed is %+v of %+v", p, r.Depends)
	}
	want := "model.py:3 asks for a truth, taken: False; another answer moves the peak by 3072.00 MiB"
	if !slices.Contains(r.Notes, Note{Info, want}) {
		t.Errorf("notes %q, want %q", r.Notes, want)
	}
	if r, err = Recorded(recordingOf(t), Options{}); err != nil || r.Depends != nil {
		t.Errorf("without a question it depends on %+v: %v", r.Depends, err)
	}
}

// A program that leaves its model on the CPU has no figures to rely on.
func TestNothingAllocated(t *testing.T) {
	for _, c := range []struct {
		lines []string
		warns bool
	}{
		{[]string{`{"format":"memestimate-recording/1","gpu":{"name":"h200"}}`}, true},
		{[]string{`{"format":"memestimate-recording/1","gpu":{"name":"h200"}}`, `["alloc",0,4194304]`}, false},
	} {
		r, err := Recorded(endedRecording(t, c.lines), Options{})
		must.OK(t, err)
		warns := slices.ContainsFunc(r.Notes, func(n Note) bool {
			return n.Level == Warning && strings.HasPrefix(n.Text, "nothing is allocated")
		})
		if warns != c.warns {
			t.Errorf("%q: notes %+v", c.lines, r.Notes)
		}
	}
}

// What another answer was seen to add is in the bound and in Safe. Only where none takes more than those that were
// tried is that a bound for all data.
func TestBoundOfWhatValuesDecide(t *testing.T) {
	step := &Step{}
	at := func(lines ...[]any) *Report {
		r, err := Recorded(recordingOf(t, lines...), Options{Step: step})
		must.OK(t, err)
		return r
	}
	plain := at().Peak
	for _, c := range []struct {
		name  string
		lines [][]any
		more  int64
		bound bool
	}{
		{"no more than all of a mask", [][]any{{"size", "all of 8", 1 << 20, 0, 0}}, 0, true},
		{"as many again were tried", [][]any{{"size", "4 of 8", 1 << 20, 0, 1 << 20}}, 1 << 20, false},
		{"the most was tried", [][]any{{"part", "4 of at most 8", 1 << 20, 0, 1 << 20}}, 1 << 20, true},
		{"a part that was not tried", [][]any{{"part", "4 of at most 8", -1, 0, -1}}, 0, false},
		{"both truths were tried", [][]any{{"truth", "False", 3 << 20, 1, 3 << 20}}, 3 << 20, true},
		{"a truth was not tried", [][]any{{"truth", "False", -1, 1, -1}}, 0, false},
		{"one number of many", [][]any{{"number", "1", 2 << 20, 1, 0}}, 0, false},
		{"two truths", [][]any{{"truth", "False", 1 << 20, 1, 1 << 20}, {"truth", "True", 2 << 20, 0, 2 << 20}}, 3 << 20,
			true},
		{"an older recorder", [][]any{{"truth", "False", 3 << 20, 1}}, 0, false},
	} {
		r := at(c.lines...)
		if r.Depends.More != c.more || r.Depends.Bound != c.bound {
			t.Errorf("%s: %+v", c.name, r.Depends)
		}
		p := r.Peak
		room := p.Safe - plain.Safe - c.more // more where not every answer was tried
		if p.UpperBound != plain.UpperBound+c.more || (room != 0) == c.bound || room < 0 || p.Allocated != plain.Allocated {
			t.Errorf("%s: %d at most, %d safe; without values %d and %d", c.name, p.UpperBound, p.Safe, plain.UpperBound,
				plain.Safe)
		}
		if said := strings.HasSuffix(r.Depends.Verdict(), ", so this is no bound"); said == c.bound {
			t.Errorf("%s: the verdict is %q", c.name, r.Depends.Verdict())
		}
	}
}

// What no figure knows is a warning, what else the recorder assumed is not.
func TestWarningsOfTheRecorder(t *testing.T) {
	rec := endedRecording(t, []string{`{"format":"memestimate-recording/1","gpu":{"name":"h200"}}`,
		`["frame",-1,"train.py",12,"main"]`, `["alloc",0,4194304]`, `["note","draws","of draws",0]`,
		`["note","scaler","of scaler",0]`})
	r, err := Recorded(rec, Options{})
	must.OK(t, err)
	for _, want := range []Note{{Warning, "of draws"}, {Info, "of scaler"}} {
		if !slices.Contains(r.Notes, want) {
			t.Errorf("%+v is not among %+v", want, r.Notes)
		}
	}
}

// oneConvolution is the recording of a convolution of one dimension with a filter of one element.
func oneConvolution(t *testing.T, channels, length int64) *recording.Recording {
	t.Helper()
	lines := []string{
		`{"format":"memestimate-recording/1","producer":"","torch":"","python":"","way":"fake-cuda","gpu":{"name":"h200",` +
			`"capability":[9,0],"multiprocessors":132,"memory":150109880320},"world_size":1,"rank":0,"alloc_conf":"",` +
			`"cudnn_benchmark":false,"allow_tf32":true}`,
		`["op","aten::convolution","default"]`,
		fmt.Sprintf(`["meta","float32",[2,%d,%d],[%d,%d,1],0]`, channels, length, channels*length, length),
		fmt.Sprintf(`["meta","float32",[256,%d,1],[%d,1,1],0]`, channels, channels),
		fmt.Sprintf(`["meta","float32",[2,256,%d],[%d,%d,1],0]`, length, 256*length, length),
		fmt.Sprintf(`["alloc",0,%d]`, 8*channels*length),
		fmt.Sprintf(`["alloc",1,%d]`, 4*256*channels),
		`["phase","forward"]`,
		`["call",0,["0:0","1:1",null,[1],[0],[1],false,[0],1],["2:2"],-1,-1]`,
		fmt.Sprintf(`["alloc",2,%d]`, 8*256*length),
	}
	return endedRecording(t, lines)
}

// cuDNN was asked about filters of one element over rows of two images: on 1,027 channels it takes no workspace, on
// 2,048 and more copies of x and y. Of 1,500 the trees disagree. The answer says which convolution it is, and what is
// allocated with the copies; where all trees agree it says nothing.
func TestEngineInDoubt(t *testing.T) {
	doubt := func(channels, length int64) string {
		r, err := Recorded(oneConvolution(t, channels, length), Options{})
		must.OK(t, err)
		for _, n := range r.Notes {
			if strings.Contains(n.Text, "in doubt") {
				return n.Text
			}
		}
		return ""
	}
	want := "cuDNN's choice for a convolution of [2 1500 1 50000] by [256 1500 1 1] is in doubt: no workspace is taken, " +
		"and in 12 in a hundred 669.86 MiB or more, with which 670.00 MiB more are reserved; safe has room for that; " +
		settles
	if got := doubt(1500, 50000); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := doubt(64, 4096); got != "" {
		t.Errorf("%q, want nothing", got)
	}
}

// answerOf is the answer about one tensor of a rank of a job, recorded with further lines.
func answerOf(t *testing.T, world, rank int, step *Step, lines ...string) *Report {
	t.Helper()
	all := append([]string{
		fmt.Sprintf(`{"format":"memestimate-recording/1","gpu":{"name":"h200","capability":[9,0],"multiprocessors":132,`+
			`"memory":150109880320},"world_size":%d,"rank":%d}`, world, rank),
	}, lines...)
	r, err := Recorded(endedRecording(t, append(all, `["alloc",0,1048576]`)), Options{Step: step})
	must.OK(t, err)
	return r
}

// What NCCL takes stands in the device's figure, in what is safe, and by itself.
func TestCommunicators(t *testing.T) {
	const settings = `["nccl",4,-1,-1,true]`
	job := []string{settings, `["communicator",[0,1,2,3]]`, `["communicator",[0,2]]`, `["connect",0,"ring",[]]`,
		`["connect",1,"send",[2]]`, `["connect",1,"receive",[2]]`}
	alone := answerOf(t, 1, 0, nil)
	if alone.NCCL != 0 || len(alone.Communicators) > 0 {
		t.Errorf("a process alone: %d bytes, %v", alone.NCCL, alone.Communicators)
	}
	for _, c := range []struct {
		name  string
		world int
		step  *Step
		lines []string
		nccl  int64 // MiB
		note  string
	}{
		{"an older recording", 4, nil, nil, 842, "info NCCL: 842.00 MiB, measured for one communicator of two GPUs"},
		{"no communicator", 4, nil, []string{settings}, 0, ""},
		{"two GPUs", 2, nil, []string{`["nccl",2,-1,-1,true]`, `["communicator",[0,1]]`, `["connect",0,"ring",[]]`}, 840,
			"info NCCL: 840.00 MiB for 1 communicator, 1 of 2 ranks"},
		{"two of four", 4, nil, job, 840 + 198 + 58 + 384,
			"info NCCL: 1.45 GiB for 2 communicators, 1 of 2 ranks, 1 of 4 ranks: sizes of two H200s of one host, more were"},
		{"as asked", 4, &Step{}, job, 1000, ""},
		{"a launcher's one process", 1, nil, []string{`["nccl",1,-1,-1,true]`, `["communicator",[0]]`}, 168 + 388,
			"info NCCL: 556.00 MiB for 1 communicator, 1 of 1 rank"},
		{"two hosts", 8, nil, append(job, `["communicator",[0,1,2,3,4,5,6,7]]`, `["connect",2,"send",[1,4]]`),
			840 + 198 + 58 + 384 + 198 + 64, "warning NCCL: 1.70 GiB for 3 communicators, 1 of 2 ranks, 1 of 4 ranks, 1 of 8"},
	} {
		if c.step != nil {
			c.step.NCCL = c.nccl << 20
		}
		r := answerOf(t, c.world, 0, c.step, c.lines...)
		more := c.nccl << 20
		if r.NCCL != more || r.Context != alone.Context+more || r.Peak.Device != alone.Peak.Device+more ||
			r.Peak.Safe < r.Peak.Device || r.Peak.Safe > r.Peak.Device+r.Peak.Device/20 {
			t.Errorf("%s: NCCL %d MiB, wanted %d; context %d, device %d, safe %d; alone %d, %d", c.name, r.NCCL>>20, c.nccl,
				r.Context, r.Peak.Device, r.Peak.Safe, alone.Context, alone.Peak.Device)
		}
		note := ""
		for _, n := range r.Notes {
			if strings.HasPrefix(n.Text, "NCCL") {
				note = n.Level + " " + n.Text
			}
		}
		if !strings.HasPrefix(note, c.note) || (c.note == "") != (note == "") {
			t.Errorf("%s: %q, wanted %q", c.name, note, c.note)
		}
	}
	if got := fmt.Sprint(answerOf(t, 4, 0, nil, job...).Communicators); got != "[{4 [ring]} {2 [send receive]}]" {
		t.Errorf("communicators %s", got)
	}
}
