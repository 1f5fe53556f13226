package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/report/page"
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/snapshot"
	"github.com/memestimate/memestimate/test/must"
)

// What the page says of a predicted run is what the replay came to.
func TestPredictedRun(t *testing.T) {
	data, _ := call(t, nil, exitOK, "snapshot", "html", pickle("resnet50_seed"))
	for _, want := range []string{"428.98 MiB", "456.00 MiB", "optim/sgd.py:455:_multi_tensor_sgd",
		"Content-Security-Policy"} {
		if !strings.Contains(data, want) {
			t.Errorf("the page of a snapshot has no %q", want)
		}
	}
	s, err := readSnapshot(&env{}, pickle("resnet50_seed"))
	must.OK(t, err)
	p, err := s.Play(0)
	must.OK(t, err)
	p.Infer()
	r, err := caching.NewReplayer(caching.Config{}).Finish(p.Log)
	must.OK(t, err)
	run := page.Predicted("predicted", p.Log.Source(), r, nil)
	var most, segments, used int64
	for _, l := range run.Levels {
		most = max(most, l.Bytes)
	}
	for _, g := range run.Segments {
		segments += g.Bytes
		for _, b := range g.Blocks {
			if b.Used {
				used += b.Bytes
			}
		}
	}
	if most != r.PeakReserved.Reserved || run.Reserved != most || segments != r.End.Reserved || used != r.End.Allocated {
		t.Errorf("levels up to %d, segments of %d with %d in use; the replay has %+v and %+v", most, segments, used,
			r.PeakReserved, r.End)
	}
	measured, err := page.Recorded(s, 0)
	must.OK(t, err)
	measured.Name = "measured"
	most = 0
	for _, l := range measured.Levels {
		most = max(most, l.Bytes)
	}
	if most != s.Figures(snapshot.AllDevices).Reserved {
		t.Errorf("the measured levels reach %d", most)
	}
	var html bytes.Buffer
	must.OK(t, page.Write(&html, &page.Page{Title: "both", Runs: []page.Run{run, *measured}}))
	if !strings.Contains(html.String(), "Differences by category") {
		t.Error("two runs are not compared")
	}
	call(t, nil, exitUsage, "snapshot", "html")
	call(t, nil, exitUsage, "snapshot", "html", "a", "b", "c")
}
