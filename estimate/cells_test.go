package estimate

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

var (
	cellsSample = flag.Int("cells.sample", 8, "TestCells takes every so many graphs; -every and CI take all")
	cellsOnly   = flag.String("cells.only", "", "TestCells takes only cases whose name contains this")
	cellsOut    = flag.String("cells.out", "", "TestCells writes the figures of each case to this file")
	cellsWrite  = flag.Bool("cells.write", false, "TestCells writes testdata/cells.md")
	cellsFreeze = flag.Bool("cells.freeze", false, "TestCells writes "+cellsBefore+": what later programs are compared with")
)

const (
	cellsBefore = "testdata/cells.tsv.gz" // the answers of an earlier program, case by case
	cellsDoc    = "testdata/cells.md"
)

// A cellKey names a cell of the table: how a model came, what it does, in which precision.
type cellKey struct{ way, mode, precision string }

func (k cellKey) training() bool { return strings.HasPrefix(k.mode, "training") }

func (k cellKey) String() string { return k.way + ", " + k.mode + ", " + k.precision }

// A figure is a case of the table: what was measured, and what is answered. All in bytes; 0 where it is not known.
type figure struct {
	cellKey
	name                           string // GRAPH: RUN
	measured, measuredReserved     int64
	device                         int64 // measured
	allocated, reserved, safe, err string
}

const figureHead = "name\tway\tmode\tprecision\tmeasured\tmeasured_reserved\tmeasured_device\tallocated\treserved\tsafe\terror"

func (f *figure) line() string {
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s", f.name, f.way, f.mode, f.precision, f.measured,
		f.measuredReserved, f.device, f.allocated, f.reserved, f.safe, strings.ReplaceAll(f.err, "\t", " "))
}

// readFigures reads what line wrote.
func readFigures(t *testing.T, data []byte) map[string]*figure {
	t.Helper()
	all := map[string]*figure{}
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		c := strings.Split(line, "\t")
		if len(c) != strings.Count(figureHead, "\t")+1 {
			t.Fatalf("line %d has %d cells: %s", i+1, len(c), line)
		}
		if i == 0 {
			continue
		}
		n := func(s string) int64 {
			v, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				t.Fatalf("line %d: %v", i+1, err)
			}
			return v
		}
		all[c[0]] = &figure{cellKey{c[1], c[2], c[3]}, c[0], n(c[4]), n(c[5]), n(c[6]), c[7], c[8], c[9], c[10]}
	}
	return all
}

// number is 0 where there was no answer.
func number(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return v
}

// off is by how much the answer misses what was allocated, in percent.
func (f *figure) off() float64 { return 100 * math.Abs(number(f.allocated)/float64(f.measured)-1) }

// A cellRow is a row of the table. Errors are absolute, of what is allocated, in percent.
type cellRow struct {
	cases, refused      int
	median, p90, worst  float64
	holds, bounded      int     // safe, of those whose device memory is known
	over                float64 // on average, in percent
	reservedMedian, r90 float64
	farther             []string // cases that are much worse than an earlier program's answer
}

func (r *cellRow) String() string {
	held := "-"
	if r.bounded > 0 {
		held = fmt.Sprintf("%.1f %% of %d, %+.1f %%", r.rate(), r.bounded, r.over)
	}
	return fmt.Sprintf("%.2f / %.2f / %.1f | %s | %.2f / %.1f", r.median, r.p90, r.worst, held, r.reservedMedian, r.r90)
}

// rate is how often safe holds, in percent.
func (r *cellRow) rate() float64 { return 100 * float64(r.holds) / float64(max(r.bounded, 1)) }

func rowOf(figures []*figure) (r cellRow) {
	var off, reserved []float64
	for _, f := range figures {
		if f.err != "" {
			r.refused++
			continue
		}
		if r.cases++; f.measured == 0 {
			continue
		}
		off = append(off, f.off())
		if f.measuredReserved > 0 {
			reserved = append(reserved, 100*math.Abs(number(f.reserved)/float64(f.measuredReserved)-1))
		}
		if f.device > 0 {
			r.bounded++
			over := 100 * (number(f.safe)/float64(f.device) - 1)
			if r.over += over; over >= 0 {
				r.holds++
			}
		}
	}
	r.over /= float64(max(r.bounded, 1))
	share := func(v []float64, s float64) float64 {
		if len(v) == 0 {
			return 0
		}
		slices.Sort(v)
		return v[min(int(s*float64(len(v))), len(v)-1)]
	}
	r.median, r.p90, r.worst = share(off, 0.5), share(off, 0.9), share(off, 1)
	r.reservedMedian, r.r90 = share(reserved, 0.5), share(reserved, 0.9)
	return r
}

// A miss is a limit that a cell breaks.
type miss struct {
	limit string
	by    float64 // the figure, in percent: more is worse
	why   string
}

// The limits of a cell.
const (
	limitRefused = "cases that are refused"
	limit90      = "error of 90 %"
	limitMedian  = "median error"
	limitUnsafe  = "cases in which safe does not hold"
	limitAbove   = "safe above what was measured"
	limitFarther = "cases that are much worse"
)

// A case is much worse from so many points more of error on: a fault in one model moves neither percentile of a cell.
const muchWorse = 15

// missed are limits that cells break today, with the figure and the cause. A row fails the test when its figure is worse,
// and when its limit is kept, so that it goes.
var missed = []struct {
	cell, limit string
	by          float64 // percent, in all cases
	cause       string
}{
	{"torch.export, stripped, inference, fp32", limitUnsafe, 2.53,
		"The bound of transformers' Swin (swin_hf) is 0.5 % too low, as its peak is 1.2 % lower without guesses that are " +
			"gone, which of them was not found out: 385 of 395 hold, before 386."},
}

// worse says which limits a row breaks. They are set by the row of an earlier program.
func (r *cellRow) worse(k cellKey, before *cellRow) (list []miss) {
	p90 := before.p90 + 1
	if !k.training() && strings.HasSuffix(k.way, withLines) { // most of what lines tell an inference may go
		p90 = max(10, p90)
	}
	add := func(limit string, by float64, format string, args ...any) {
		list = append(list, miss{limit, by, fmt.Sprintf(format, args...)})
	}
	if r.refused > before.refused {
		add(limitRefused, float64(r.refused), "%d cases are refused, before %d", r.refused, before.refused)
	}
	if r.p90 > p90 {
		add(limit90, r.p90, "90 %% within %.2f %%, before %.2f %%, limit %.2f %%", r.p90, before.p90, p90)
	}
	if r.median > before.median+0.1 {
		add(limitMedian, r.median, "median %.2f %%, before %.2f %%, limit 0.1 more", r.median, before.median)
	}
	if least := min(98, before.rate()); r.rate() < least {
		add(limitUnsafe, 100-r.rate(), "safe holds in %.2f %%, before %.2f %%, wanted %.2f %%", r.rate(), before.rate(), least)
	}
	allowed := 0
	if !k.training() { // a graph's inference is promised as a range alone
		allowed = 2
	}
	if n := len(r.farther); n > allowed {
		add(limitFarther, float64(n), "%d cases are over %d points worse than before, limit %d: %v", n, muchWorse, allowed, r.farther)
	}
	if r.over > before.over+0.1 {
		add(limitAbove, r.over, "safe is %.2f %% above, before %.2f %%, limit 0.1 more", r.over, before.over)
	}
	return list
}

// judgeCell fails the test for a cell over its limits. What is missed has figures of all cases: of a part it is not judged.
func judgeCell(t *testing.T, k cellKey, is, was *cellRow, all bool) {
	t.Helper()
	const rounded = 0.005 // of figures of missed
	list := is.worse(k, was)
	for _, m := range missed {
		if m.cell != k.String() {
			continue
		}
		at := slices.IndexFunc(list, func(l miss) bool { return l.limit == m.limit })
		switch {
		case !all && at >= 0:
			t.Logf("missed, %v: %s", k, list[at].why)
		case all && at < 0:
			t.Errorf("%v: %s is within its limit: take it out of missed", k, m.limit)
		case all && list[at].by > m.by+rounded:
			t.Errorf("%v: %s, worse than the %.2f %% of missed", k, list[at].why, m.by)
		}
		if at >= 0 {
			list = slices.Delete(list, at, at+1)
		}
	}
	for _, l := range list {
		if !all && l.limit == limitAbove { // the mean of a part is not the cell's
			t.Logf("%v: %s", k, l.why)
			continue
		}
		t.Errorf("%v: %s", k, l.why)
	}
}

// judgedFrom is from how many cases on a cell of a sample is judged: the percentiles of fewer say nothing.
const judgedFrom = 20

// TestCells compares the answers about every measured run whose recording or graph is kept with the measurement, and
// the errors with those of an earlier program: by how the model came, mode and precision.
func TestCells(t *testing.T) {
	sample := *cellsSample
	if *everyCase || os.Getenv("CI") != "" || *cellsFreeze || *cellsWrite || *cellsOnly != "" {
		sample = 1
	}
	took := func(name string) bool {
		graph, _, _ := strings.Cut(name, ": ")
		h := fnv.New32a()
		io.WriteString(h, strings.TrimSuffix(graph, stripped))
		return int(h.Sum32()%uint32(sample)) == 0 && strings.Contains(name, *cellsOnly) ||
			strings.HasPrefix(name, recordedWay) && *cellsOnly == ""
	}
	begun := time.Now()
	var now []*figure
	for _, f := range answerAll(cellGraphs(t), took) {
		now = append(now, f...)
	}
	slices.SortFunc(now, func(a, b *figure) int { return cmp.Compare(a.name, b.name) })
	t.Logf("%d cases in %v", len(now), time.Since(begun).Round(time.Second))
	var text bytes.Buffer
	fmt.Fprintln(&text, figureHead)
	for i, f := range now {
		if i > 0 && now[i-1].name == f.name {
			t.Fatalf("two cases are named %s", f.name)
		}
		fmt.Fprintln(&text, f.line())
	}
	if *cellsOut != "" {
		must.Write(t, *cellsOut, text.Bytes())
	}
	if *cellsFreeze {
		freeze(t, text.Bytes())
	}
	before := readFigures(t, testfile.Unzipped(t, cellsBefore))
	maps.DeleteFunc(before, func(name string, _ *figure) bool { return !took(name) })
	compareCells(t, now, before, sample)
}

func freeze(t *testing.T, text []byte) {
	t.Helper()
	f, err := os.Create(cellsBefore)
	must.OK(t, err)
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	must.OK(t, err)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	must.OK(t, cmp.Or(z.Close(), f.Close()))
}

// answerAll answers all cases that are taken, a graph at a time on each processor.
func answerAll(graphs []cellGraph, took func(string) bool) [][]*figure {
	answers := make([][]*figure, len(graphs))
	next := make(chan int)
	var done sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		done.Go(func() {
			for i := range next {
				answers[i] = graphs[i].answer(took)
			}
		})
	}
	for i := range graphs {
		next <- i
	}
	close(next)
	done.Wait()
	return answers
}

// compareCells logs the table, and fails the test where a cell is worse than its limits let it be.
func compareCells(t *testing.T, now []*figure, before map[string]*figure, sample int) {
	cells, old := map[cellKey][]*figure{}, map[cellKey][]*figure{}
	changed := []*figure{}
	for _, f := range now {
		b := before[f.name]
		if b == nil {
			t.Errorf("%s: %s does not have it", f.name, cellsBefore)
			continue
		}
		cells[f.cellKey], old[f.cellKey] = append(cells[f.cellKey], f), append(old[f.cellKey], b)
		if f.line() != b.line() {
			changed = append(changed, f)
		}
		if f.way == recordedWay && (f.allocated != b.allocated || f.reserved != b.reserved || f.err != b.err) {
			t.Errorf("%s: %s and %s, before %s and %s %s", f.name, f.allocated, f.reserved, b.allocated, b.reserved, f.err)
		}
		if f.err != "" && b.err == "" {
			t.Logf("%s is refused: %s", f.name, f.err)
		}
		delete(before, f.name)
	}
	for name := range before {
		t.Errorf("%s is a case of %s and none now", name, cellsBefore)
	}
	var w strings.Builder
	fmt.Fprintln(&w, "| way in | run | cases | before: median / 90 % / worst | safe holds, above | reserved: median / 90 % "+
		"| now: median / 90 % / worst | safe holds, above | reserved: median / 90 % |")
	fmt.Fprintln(&w, "|---|---|---:|---:|---:|---:|---:|---:|---:|")
	keys := slices.SortedFunc(maps.Keys(cells), func(a, b cellKey) int {
		return cmp.Or(cmp.Compare(a.way, b.way), cmp.Compare(b.mode, a.mode), cmp.Compare(a.precision, b.precision))
	})
	for _, k := range keys {
		was, is := rowOf(old[k]), rowOf(cells[k])
		for i, f := range cells[k] {
			if f.measured > 0 && f.err == "" && old[k][i].err == "" && f.off() > old[k][i].off()+muchWorse {
				is.farther = append(is.farther, f.name)
			}
		}
		fmt.Fprintf(&w, "| %s | %s, %s | %d | %s | %s |\n", k.way, k.mode, k.precision, is.cases, &was, &is)
		if sample > 1 && is.cases < judgedFrom || k.way == constructsWay {
			continue
		}
		judgeCell(t, k, &is, &was, sample == 1 && *cellsOnly == "")
	}
	t.Logf("%d cases differ from before\n%s", len(changed), w.String())
	all := readFigures(t, testfile.Unzipped(t, cellsBefore))
	shift := func(f *figure) float64 { return f.off() - all[f.name].off() }
	slices.SortFunc(changed, func(a, b *figure) int { return cmp.Compare(shift(b), shift(a)) })
	for _, f := range changed[:min(25, len(changed))] {
		if f.measured > 0 && math.Abs(shift(f)) > 0.01 {
			t.Logf("%+7.2f points, now %.2f %% off: %s", shift(f), f.off(), f.name)
		}
	}
	for _, m := range missed {
		if !slices.ContainsFunc(keys, func(k cellKey) bool { return k.String() == m.cell }) && sample == 1 && *cellsOnly == "" {
			t.Errorf("missed has %s, which is no cell", m.cell)
		}
	}
	if *cellsWrite {
		var list strings.Builder
		for _, m := range missed {
			fmt.Fprintf(&list, "- **%s**: %s is %.2f %%. %s\n", m.cell, m.limit, m.by, m.cause)
		}
		testfile.Between(t, cellsDoc, "<!-- missed: go test ./estimate -run TestCells -cells.write -->\n",
			"<!-- end of missed -->\n").Write(t, "\n"+list.String()+"\n")
		testfile.Between(t, cellsDoc, "<!-- cells: go test ./estimate -run TestCells -cells.write -->\n",
			"<!-- end of cells -->\n").Write(t, "\n"+w.String())
	}
}
