package main

import (
	"path/filepath"
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
			Groups []snapshot.Group
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
		if w := want[by]; w != "" && r.Groups[0].Label != w {
			t.Errorf("--by %s: %+v first, wanted %s", by, r.Groups[0], w)
		}
	}
	// Rules with names, and the edges of a range.
	var r struct {
		Event  int
		Bytes  int64
		Groups []snapshot.Group
	}
	callJSON(t, &r, "snapshot", "top", measuredOOM, "--regex", "dense=linear", "--regex", "other=.", "--at", "end:forward")
	if len(r.Groups) != 3 || r.Groups[1].Label != "dense" || r.Groups[0].Label != "other" ||
		r.Groups[2].Label != "no-match" || r.Event != 335 {
		t.Errorf("named rules: %+v", r)
	}
	callJSON(t, &r, "snapshot", "top", measuredOOM, "--at", "begin:forward")
	if r.Event != 17 || r.Bytes != 26280448 {
		t.Errorf("at the beginning of forward: %+v", r)
	}
	call(t, nil, exitNo, "snapshot", "top", measuredOOM, "--at", "begin:lunch")
	call(t, nil, exitUsage, "snapshot", "top", measuredOOM, "--by", "regex")
	call(t, nil, exitUsage, "snapshot", "top", measuredOOM, "--regex", "(")
	call(t, nil, exitUsage, "snapshot", "top", measuredOOM, "--by", "stack", "--regex", "x")
}
