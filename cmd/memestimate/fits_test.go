package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/must"
)

// recordings are those in the repository that can be read.
func recordings(t *testing.T) map[string]*recording.Recording {
	t.Helper()
	all := map[string]*recording.Recording{}
	for _, root := range []string{"../../estimate/testdata", "../../recording/testdata", "testdata"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".mrec") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if all[path], err = recording.Read(bytes.NewReader(text)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			return nil
		})
		must.OK(t, err)
	}
	if len(all) < 45 {
		t.Fatalf("only %d recordings", len(all))
	}
	return all
}

// The row of cards, --gpu, --budget and fit give one answer about each recording and card; and a run that fits neither
// runs out of memory there nor goes on only by the allocator's retries. Beside the cards there are those of a memory
// one byte more and less than the run takes: what is only a little short goes on by retries. Known cards come in turn:
// of those of about the run's size a quarter, of others fewer, or with MEMESTIMATE_TESTS=every all.
func TestEveryCardFitsAlike(t *testing.T) {
	every := strings.Contains(os.Getenv("MEMESTIMATE_TESTS"), "every")
	pairs, retried := 0, 0
	for path, rec := range recordings(t) {
		recorded := func(s estimate.Step) *estimate.Report {
			r, err := estimate.Recorded(rec, estimate.Options{Step: &s})
			if err != nil {
				t.Fatalf("%s on %s: %v", path, s.GPU.ID, err)
			}
			return r
		}
		simulate := func(s estimate.Step) (*estimate.Peak, error) { return recorded(s).Peak, nil }
		plain := recorded(estimate.Step{})
		var cards []gpu.Device
		for i, g := range gpu.Known() {
			turn := 16
			if g.Memory/4 < plain.Peak.Safe && plain.Peak.Device < 4*g.Memory {
				turn = 4
			}
			if every || i%turn == len(path)%turn {
				cards = append(cards, g)
			}
		}
		for _, c := range []estimate.Confidence{estimate.Predicted, estimate.Safe} {
			need, _ := plain.Peak.At(c)
			for _, more := range []int64{-1, 0} {
				g := gpu.Default()
				g.ID, g.Memory = "as-large", need+more
				cards = append(cards, g)
			}
		}
		for _, g := range cards {
			pairs++
			on, err := estimate.On(simulate, estimate.Step{}, g, plain.Peak)
			must.OK(t, err)
			limited := recorded(estimate.Step{GPU: g, Limited: true})
			if limited.Retries > 0 {
				retried++
			}
			for _, c := range []estimate.Confidence{estimate.Predicted, estimate.Safe} {
				row := on.Fits(g.Memory, c)
				flag, budget := *limited, *recorded(estimate.Step{GPU: g})
				flag.Judge(estimate.Step{GPU: g, Limited: true}, 0, c)
				budget.Judge(estimate.Step{GPU: g}, g.Memory, c)
				point := plain.Peak.Fits(g.Memory, c)
				if point != row && on == plain.Peak || flag.OK() != row || budget.OK() != row {
					t.Errorf("%s on %s, %s: the row says %t, --gpu %t, --budget %t", path, g.ID, c, row, flag.OK(), budget.OK())
				}
				if row && (limited.OOM != nil || limited.Retries > 0) {
					t.Errorf("%s fits %s, %s, and runs out or goes on by %d retries", path, g.ID, c, limited.Retries)
				}
			}
		}
	}
	if retried == 0 {
		t.Error("no run goes on by retries: the test cannot fail")
	}
	t.Logf("%d pairs, %d by retries", pairs, retried)
}

// What goes on only by retries is said not to fit, with exit code 1, and so is what a recording says it runs out of.
func TestRetriesDoNotFit(t *testing.T) {
	const path = "../../estimate/testdata/recordings/resnet18-train-fp32-adamw-b8.mrec"
	rec := recordings(t)[path]
	r, err := estimate.Recorded(rec, estimate.Options{})
	must.OK(t, err)
	const less = 1 // byte
	g := gpu.Default()
	g.ID, g.Memory = "short", r.Peak.Device-less
	s := estimate.Step{GPU: g, Limited: true}
	short, err := estimate.Recorded(rec, estimate.Options{Step: &s})
	must.OK(t, err)
	if short.OOM != nil {
		t.Fatalf("it runs out %d bytes short, and never retries", less)
	}
	short.Judge(s, 0, estimate.Predicted)
	if short.Retries == 0 {
		t.Fatalf("%d bytes short it neither retries nor runs out", less)
	}
	if short.OK() || short.Peak.Device != r.Peak.Device {
		t.Errorf("%d bytes short by retries: %+v, %+v", less, short.Fits, short.Peak)
	}
	err = verdict(source{arg: path}, short, true)
	if err == nil || !strings.Contains(report.Judgement(&short.Fits[0]), "too much") {
		t.Errorf("the verdict is %v", err)
	}
}
