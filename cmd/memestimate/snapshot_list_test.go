package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/snapshot"
)

// measuredOOM is a recording with annotations and metadata, of scripts/measure/oom_snapshots.py.
var measuredOOM = filepath.Join(recorded, "oom", "batch.pickle.gz")

// Memory is added up in every way, and each way comes to the same total.
func TestSnapshotBy(t *testing.T) {
	want := map[string]string{"annotation": "forward", "metadata": "forward", "context": "not-compiled",
		"module": "modules/linear.py:134:forward", "phase": "forward",
		"stream": "default-stream", "category": "no-category", "user": "u/oom_snapshots.py:71:batch",
		"frame": "modules/linear.py:134:forward"}
	for _, by := range snapshot.By {
		var r struct {
			Bytes  int64
			Groups []groupJSON
		}
		args := []string{"snapshot", "top", measuredOOM, "--by", by, "--at", "oom", "-n", "0"}
		if by == "regex" {
			args = append(args, "--regex", "batch$")
			want[by] = "u/oom_snapshots.py:71:batch"
		}
		callJSON(t, &r, args...)
		var sum int64
		for _, g := range r.Groups {
			sum += g.Bytes
		}
		if sum != 999369216 || r.Bytes != sum {
			t.Errorf("--by %s: %d bytes of %d", by, sum, r.Bytes)
		}
		if w := want[by]; w != "" && r.Groups[0].Where != w {
			t.Errorf("--by %s: %+v first, wanted %s", by, r.Groups[0], w)
		}
	}
	// Rules with names, and the edges of a range.
	var r struct {
		Event  int
		Bytes  int64
		Groups []groupJSON
	}
	callJSON(t, &r, "snapshot", "top", measuredOOM, "--regex", "dense=linear", "--regex", "other=.", "--at", "end:forward")
	if len(r.Groups) != 3 || r.Groups[1].Where != "dense" || r.Groups[0].Where != "other" ||
		r.Groups[2].Where != "no-match" || r.Event != 335 {
		t.Errorf("named rules: %+v", r)
	}
	callJSON(t, &r, "snapshot", "top", measuredOOM, "--at", "begin:forward")
	if r.Event != 17 || r.Bytes != 26280448 {
		t.Errorf("at the beginning of forward: %+v", r)
	}
	call(t, nil, exitNo, "snapshot", "top", measuredOOM, "--at", "begin:lunch")
	// An annotation that PyTorch's own files rarely have, with the metadata beside it.
	out, _ := call(t, nil, exitOK, "snapshot", "events", filepath.Join(recorded, "odd", "annot_metadata.pickle"), "--by",
		"annotation", "-f", "csv")
	if !strings.Contains(out, "alloc") {
		t.Errorf("events say\n%s", out)
	}
	call(t, nil, exitUsage, "snapshot", "top", measuredOOM, "--by", "regex")
	call(t, nil, exitUsage, "snapshot", "top", measuredOOM, "--regex", "(")
	call(t, nil, exitUsage, "snapshot", "top", measuredOOM, "--by", "stack", "--regex", "x")
}

// Stacks are folded for flame graphs: the lines add up to what is allocated.
func TestSnapshotFolded(t *testing.T) {
	out, _ := call(t, nil, exitOK, "snapshot", "top", measuredOOM, "-f", "folded")
	var sum int64
	for line := range strings.Lines(out) {
		at := strings.LastIndexByte(line, ' ')
		var n int64
		if err := json.Unmarshal([]byte(strings.TrimSpace(line[at+1:])), &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		sum += n
	}
	if sum != 999369216 || !strings.HasPrefix(out, "u/oom_snapshots.py:214:<module>;u/oom_snapshots.py:200:main;") {
		t.Errorf("%d bytes in\n%s", sum, out)
	}
}

// The trace is a list that can be filtered.
func TestSnapshotEvents(t *testing.T) {
	var r struct {
		Count  int
		Events []eventJSON
	}
	callJSON(t, &r, "snapshot", "events", measuredOOM, "-n", "0")
	if r.Count != 336 || len(r.Events) != 336 || r.Events[335].Action != "oom" ||
		r.Events[335].Where != "u/oom_snapshots.py:71:batch" || len(r.Events[335].Frames) < 5 {
		t.Fatalf("%d events, %d listed", r.Count, len(r.Events))
	}
	address := r.Events[1].Addr
	for _, c := range []struct {
		want int
		args []string
	}{
		{120, []string{"--action", "alloc"}}, {186, []string{"--action", "free_requested,free_completed"}}, {1,
			[]string{"--action", "oom"}},
		{36, []string{"--from", "300"}}, {10, []string{"--from", "10", "--to", "19"}},
	} {
		callJSON(t, &r, append([]string{"snapshot", "events", measuredOOM, "-n", "3"}, c.args...)...)
		if r.Count != c.want || len(r.Events) != min(c.want, 3) {
			t.Errorf("%q: %d events, wanted %d", c.args, r.Count, c.want)
		}
	}
	callJSON(t, &r, "snapshot", "events", measuredOOM, "--addr", fmt.Sprintf("%#x", address), "--regex",
		"network", "--min-size", "4MiB")
	if r.Count == 0 || r.Count > 4 {
		t.Errorf("%d events at %#x", r.Count, address)
	}
	for _, e := range r.Events {
		if e.Addr != address || e.Size < 4<<20 {
			t.Errorf("%+v passes", e)
		}
	}
	out, _ := call(t, nil, exitOK, "snapshot", "events", measuredOOM, "-n", "2")
	if !strings.HasSuffix(out, "\n... 334 more; -n 0 lists all\n") {
		t.Errorf("events say\n%s", out)
	}
	for _, args := range [][]string{{"--min-size", "much"}, {"--addr", "here"}, {"--from", "5", "--to", "3"},
		{"--regex", "("}, {"--by", "day"}, {"-n", "-1"}} {
		call(t, nil, exitUsage, append([]string{"snapshot", "events", measuredOOM}, args...)...)
	}
}
