package estimate

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/testfile"
)

var tracesDir = flag.String("accuracy.traces", "caching/testdata/traces", "the folder of MODEL.MODE.json.gz traces")

// readTrace returns the signed sizes of the allocations of a measured run.
func readTrace(t testing.TB, model, mode string) (sizes []int64) {
	t.Helper()
	path := filepath.Join(*tracesDir, model+"."+mode+".json.gz")
	if _, err := os.Stat(path); err != nil {
		t.Skip(err)
	}
	var events [][3]any
	testfile.JSON(t, path, &events)
	for _, e := range events {
		n := int64(e[2].(float64))
		switch e[0] {
		case "alloc":
			sizes = append(sizes, n)
		case "free_completed":
			sizes = append(sizes, -n)
		}
	}
	return sizes
}

// TestTraceDifference shows, for -accuracy.model, where the predicted requests leave the
// measured ones: a tool for whoever works on a rule.
func TestTraceDifference(t *testing.T) {
	if *onlyModel == "" {
		t.Skip("needs -accuracy.model")
	}
	mode := "train"
	if strings.Contains(*onlyCase, "infer") {
		mode = "infer"
	}
	var best measuredCase
	for _, c := range readCases(t, *casesFile) {
		if c.Model == *onlyModel && c.Mode == mode && c.DType == "fp32" && (mode == "infer" || c.Opt == "sgdm") &&
			!bool(c.ChannelsLast) && c.Batch > best.Batch {
			best = c
		}
	}
	sim, err := simulate(t, best, formOf(best.Model))
	if err != nil {
		t.Fatal(err)
	}
	tl := sim.Timeline()
	want := readTrace(t, best.Model, mode)
	var got []int64
	var about []string
	for _, e := range tl.Events {
		layer := ""
		if e.Layer >= 0 {
			layer = tl.Layers[e.Layer]
		}
		switch e.Kind {
		case timeline.Alloc:
			got, about = append(got, e.Bytes), append(about, fmt.Sprintf("%s/%d %s %s", e.Phase, e.Step, layer, e.Category))
		case timeline.Free:
			got, about = append(got, -e.Bytes), append(about, fmt.Sprintf("%s/%d %s", e.Phase, e.Step, layer))
		}
	}
	got, about = withoutScratch(got, about)
	want, _ = withoutScratch(want, make([]string, len(want)))
	printDifference(t, got, want, about)
}

// withoutScratch leaves out what is freed as soon as it is allocated: workspaces, whose sizes have tests of their own.
func withoutScratch(sizes []int64, about []string) (rest []int64, what []string) {
	for i := 0; i < len(sizes); i++ {
		if i+1 < len(sizes) && sizes[i] > 0 && sizes[i] == -sizes[i+1] {
			i++
			continue
		}
		rest, what = append(rest, sizes[i]), append(what, about[i])
	}
	return rest, what
}

// printDifference prints an edit script between two sequences, with some context, up to
// 120 lines of differences.
func printDifference(t *testing.T, got, want []int64, about []string) {
	const look = 60
	i, j, lines, same := 0, 0, 0, 0
	for i < len(got) && j < len(want) && lines < 120 {
		if got[i] == want[j] {
			i, j, same = i+1, j+1, same+1
			continue
		}
		t.Logf("   ... %d equal", same)
		same = 0
		bi, bj := -1, -1
	search:
		for d := 1; d < 2*look; d++ {
			for di := 0; di <= d; di++ {
				dj := d - di
				if i+di+2 < len(got) && j+dj+2 < len(want) && got[i+di] == want[j+dj] && got[i+di+1] == want[j+dj+1] &&
					got[i+di+2] == want[j+dj+2] {
					bi, bj = i+di, j+dj
					break search
				}
			}
		}
		if bi < 0 {
			bi, bj = min(i+10, len(got)), min(j+10, len(want))
		}
		for ; i < bi; i++ {
			t.Logf("  predicted only %+d  %s", got[i], about[i])
			lines++
		}
		for ; j < bj; j++ {
			where := ""
			if i < len(about) {
				where = about[i]
			}
			t.Logf("  measured only  %+d  (near %s)", want[j], where)
			lines++
		}
	}
	t.Logf("   ... %d equal; %d of %d predicted and %d of %d measured read", same, i, len(got), j, len(want))
}
