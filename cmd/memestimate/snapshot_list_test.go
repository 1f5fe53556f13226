package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

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

// The whole file comes out as JSON, as its schema says.
func TestSnapshotExport(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../docs/schema/snapshot-export.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(recorded, "o*", "*.pickle*"))
	if err != nil || len(more) != 15 {
		t.Fatal(more, err)
	}
	for _, path := range append(more, pickle("resnet50_seed"), pickle("expandable")) {
		out, _ := call(t, nil, exitOK, "snapshot", "export", path)
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		var x exported
		if err := json.Unmarshal([]byte(out), &x); err != nil {
			t.Fatal(err)
		}
		s, err := readSnapshot(&env{}, path)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, tr := range x.Traces {
			n += len(tr.Events)
		}
		if n != s.Events() || len(x.Segments) != len(s.Segments) || len(x.Frames) != len(s.Frames) ||
			len(x.Annotations) != len(s.Annotations) {
			t.Errorf("%s: %d events of %d", path, n, s.Events())
		}
	}
}

// A writer that several may write to and read.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// A file that a job rewrites is followed, also while it is half written.
func TestSnapshotWatch(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run.pickle")
	put := func(name string, cut int) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b[:len(b)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs shared
	e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
	done := make(chan int)
	go func() {
		done <- run(context.Background(), e, []string{"snapshot", "watch", file, "--every", "200ms", "-n", "3"})
	}()
	wait := func(lines int) {
		t.Helper()
		end := time.Now().Add(30 * time.Second)
		for ; strings.Count(out.String(), "allocated ") < lines; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d lines did not come: %q, %q", lines, out.String(), errs.String())
			}
		}
	}
	put(pickle("mem_track_1_model"), 0)
	wait(1)
	put(pickle("mem_track_2_tensors"), 100)
	put(pickle("mem_track_2_tensors"), 0)
	wait(2)
	put(measuredOOM, 0)
	wait(3)
	if code := <-done; code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	for _, want := range []string{"allocated 76.39 MiB", "allocated 466.39 MiB",
		"+ 180.00 MiB in 1 allocation  train.py:",
		"out of memory at event 335: u/oom_snapshots.py:71:batch asked for 96.00 MiB: step: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	call(t, nil, exitUsage, "snapshot", "watch", "-")
	call(t, nil, exitUsage, "snapshot", "watch", file, "--every", "1us")
}
