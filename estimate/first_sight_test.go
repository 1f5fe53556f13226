package estimate

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/testfile"
)

// programs68 are the programs of python/tests/programs.
const programs68 = "testdata/programs68"

// A recordedAnswer is what a recording of a measured run gave; the bounds are without the context.
type recordedAnswer struct {
	measuredCase
	Allocated int64  `json:"allocated_bytes"`
	Reserved  int64  `json:"reserved_bytes"`
	AtMost    int64  `json:"at_most_bytes"`
	Likely    int64  `json:"likely_bytes"`
	Safe      int64  `json:"safe_bytes"`
	Error     string `json:"error"`
	Recorded  int    `json:"recorded_steps"` // what was recorded, where the run had more steps; 0 for all
}

// until returns what a run took in its first steps, of 0 in all of them.
func until(m measuredCase, steps int) measuredCase {
	if steps > 0 && steps < len(m.Steps) {
		m.PeakAlloc, m.PeakReserved = 0, 0
		for _, s := range m.Steps[:steps] {
			m.PeakAlloc, m.PeakReserved = max(m.PeakAlloc, s["peak"]), max(m.PeakReserved, s["reserved"])
		}
	}
	return m
}

// firstSightRow is a row of docs/ACCURACY.md: the errors of those answers that keep takes, by absolute value in
// percent, and how many bounds hold at how much above.
func firstSightRow(name string, answers []recordedAnswer, steps []measuredCase, keep func(measuredCase) bool) string {
	var allocated, reserved []float64
	var holds, asked [3]int
	var above [3]float64
	n := 0
	for i, a := range answers {
		m := steps[i]
		if !keep(m) {
			continue
		}
		n++
		m = until(m, a.Recorded)
		if a.Error != "" {
			continue
		}
		off := func(got, want int64) float64 { return 100 * math.Abs(float64(got)/float64(want)-1) }
		allocated, reserved = append(allocated, off(a.Allocated, m.PeakAlloc)),
			append(reserved, off(a.Reserved, m.PeakReserved))
		for j, bound := range []int64{a.AtMost, a.Likely, a.Safe} {
			asked[j]++
			if bound >= m.PeakReserved {
				holds[j]++
			}
			above[j] += 100 * (float64(bound)/float64(m.PeakReserved) - 1)
		}
	}
	slices.Sort(allocated)
	slices.Sort(reserved)
	at := func(v []float64, share float64) float64 { return v[min(int(share*float64(len(v))), len(v)-1)] }
	row := fmt.Sprintf("| %s | %d of %d | %.3f | %.2f | %.2f | %.1f | %.2f | %.1f |", name, len(allocated), n,
		at(allocated, 0.5), at(allocated, 0.75), at(allocated, 0.9), at(allocated, 1), at(reserved, 0.5), at(reserved, 0.9))
	for j := range holds {
		row += fmt.Sprintf(" %d of %d, %.1f %% |", holds[j], asked[j], above[j]/float64(asked[j]))
	}
	return row
}

// firstSightSets are all that were compared once; of the last five no graphs are kept.
var firstSightSets = append(slices.Clip(publishedSets), "testdata/published66", "testdata/published94",
	"testdata/published94b", "testdata/published64", "testdata/published41", "testdata/published82")

// besideRecordings is a set of which the runs were recorded and not measured.
const besideRecordings = "testdata/beside34"

// TestPublishedAtFirstSight holds the tables of docs/ACCURACY.md to the answers of published models' recordings, as
// they were given before anybody had worked on them, and of one set since.
func TestPublishedAtFirstSight(t *testing.T) {
	doc, err := os.ReadFile("../docs/ACCURACY.md")
	if err != nil {
		t.Fatal(err)
	}
	runs := []struct {
		name string
		keep func(measuredCase) bool
	}{
		{"training, fp32", func(m measuredCase) bool { return m.Mode == "train" && m.DType == "fp32" }},
		{"training, amp-bf16", func(m measuredCase) bool { return m.DType == "amp-bf16" }},
		{"inference, fp32", func(m measuredCase) bool { return m.Mode == "infer" }},
		{"all", func(measuredCase) bool { return true }},
	}
	for _, set := range append([]string{programs68}, firstSightSets...) {
		runs := runs
		if set == programs68 { // small programs, each in one way
			runs = runs[len(runs)-1:]
		}
		var steps struct {
			Cases []measuredCase `json:"cases"`
		}
		testfile.JSON(t, set+"/steps.json.gz", &steps)
		var first struct{ Answers, Afterwards, Beside []recordedAnswer }
		testfile.JSON(t, set+"/first.json.gz", &first)
		for when, answers := range map[string][]recordedAnswer{"at first sight": first.Answers, "since": first.Afterwards,
			"with those recorded beside the measurement": beside(first.Answers, first.Beside)} {
			if len(answers) == 0 && when != "at first sight" {
				continue
			}
			if len(answers) != len(steps.Cases) {
				t.Fatalf("%s, %s: %d answers of %d runs", set, when, len(answers), len(steps.Cases))
			}
			for _, r := range runs {
				row := firstSightRow(when+": "+r.name, answers, steps.Cases, r.keep)
				if !strings.Contains(string(doc), row) {
					t.Errorf("%s: docs/ACCURACY.md does not have\n%s", set, row)
				}
			}
		}
	}
}

// beside returns the answers with those that recordings beside the measurement gave in place of none.
func beside(answers, later []recordedAnswer) (all []recordedAnswer) {
	for _, a := range answers {
		for _, l := range later {
			if a.Error != "" && l.Model == a.Model && l.Mode == a.Mode && l.DType == a.DType {
				a = l
			}
		}
		if len(later) > 0 {
			all = append(all, a)
		}
	}
	return all
}

// TestPublishedExportsAtFirstSight holds the tables of docs/ACCURACY.md to what exports of the same models gave, by the
// program that nobody had tuned to them.
func TestPublishedExportsAtFirstSight(t *testing.T) {
	doc, err := os.ReadFile("../docs/ACCURACY.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range append(slices.Clip(firstSightSets), besideRecordings) {
		for _, row := range exportRows(t, set) {
			if !strings.Contains(string(doc), row) {
				t.Errorf("%s: docs/ACCURACY.md does not have\n%s", set, row)
			}
		}
	}
}

// An exportedAnswer is what an export gave, made in a way. Its criterion, where it is given, stands for that of the
// run: it was in the export, or its authors' own has a name.
type exportedAnswer struct {
	recordedAnswer
	Way string `json:"way"`
}

// exportRows are the rows of docs/ACCURACY.md about the exports of a set, and about its others, which were made later.
func exportRows(t *testing.T, set string) (rows []string) {
	t.Helper()
	var steps struct {
		Cases []measuredCase `json:"cases"`
	}
	testfile.JSON(t, set+"/steps.json.gz", &steps)
	type run struct {
		model, mode, dtype string
		batch              int64
	}
	of := func(m measuredCase) run { return run{m.Model, m.Mode, m.DType, m.Batch} }
	measured, own := map[run]measuredCase{}, map[string]bool{}
	for _, c := range steps.Cases {
		measured[of(c)] = c
		own[c.Model] = own[c.Model] || c.Criterion == "own"
	}
	var first struct{ Answers, Others []exportedAnswer }
	testfile.JSON(t, set+"/exports.json.gz", &first)
	ways := map[string]string{"ts-train": "TorchScript, training", "dynamo-train": "torch.export, training",
		"default": "default export"}
	for _, asked := range [][]exportedAnswer{first.Answers, first.Others} {
		for way, title := range ways {
			var answers []recordedAnswer
			var cases []measuredCase
			named := map[string]bool{}
			for _, a := range asked {
				c, ok := measured[of(a.measuredCase)]
				if !ok {
					t.Fatalf("%v was not measured", of(a.measuredCase))
				}
				if a.Way == way && a.Error != "not exported" {
					answers, cases = append(answers, a.recordedAnswer), append(cases, c)
					named[c.Model] = named[c.Model] || a.Criterion != ""
				}
			}
			if len(answers) > 0 {
				withName := func(model string) bool { return named[model] || !own[model] }
				rows = append(rows, wayRows(title, answers, cases, withName)...)
			}
		}
	}
	return rows
}

// wayRows are the rows about the exports of one way.
func wayRows(title string, answers []recordedAnswer, cases []measuredCase, named func(string) bool) (rows []string) {
	for name, keep := range map[string]func(measuredCase) bool{
		"training, fp32":     func(m measuredCase) bool { return m.Mode == "train" && m.DType == "fp32" },
		"training, amp-bf16": func(m measuredCase) bool { return m.DType == "amp-bf16" },
		"inference, fp32":    func(m measuredCase) bool { return m.Mode == "infer" },
		"training, fp32, criterion with a name": func(m measuredCase) bool {
			return m.Mode == "train" && m.DType == "fp32" && named(m.Model)
		},
	} {
		if slices.ContainsFunc(cases, keep) {
			rows = append(rows, firstSightRow(title+": "+name, answers, cases, keep))
		}
	}
	return rows
}
