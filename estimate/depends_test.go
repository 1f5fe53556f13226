package estimate

import (
	"encoding/json"
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
