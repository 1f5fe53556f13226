package report

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/test/must"
)

// ran gives a report a run whose figures are odd numbers and whose layers have these names.
func ran(r *estimate.Report, names []string) *estimate.Report {
	r.Settings = estimate.Settings{Mode: "train", Settings: torch.Settings{Precision: "fp32", Optimizer: "adamw",
		Loss: "mean"}}
	p := &estimate.Peak{Phase: "backward", Step: 2, Layer: names[0], ByCategory: map[string]int64{}}
	for i, c := range categories {
		n := int64(1234567*i + 891)
		p.ByCategory[c.name] = n
		p.Allocated += n
	}
	for i, name := range names {
		p.Live = append(p.Live, estimate.Live{Layer: name, Category: "activation", Bytes: int64(len(names)-i) << 20,
			Tensors: 3})
	}
	p.Reserved, r.Context = p.Allocated+7654321, 600<<20
	p.Device = p.Reserved + r.Context
	p.Likely, p.Safe, p.UpperBound = p.Device+1234, p.Device+123456, p.Device+12345
	r.Peak = p
	r.Phases = []estimate.Phase{{Step: 0, Name: "load", End: 5, Peak: 5}, {Step: 1, Name: "forward", End: 9, Peak: 2048},
		{Step: 3, Name: "forward", End: 9, Peak: 2049}}
	r.OOM = &estimate.OOM{Phase: "forward", Step: 1, Layer: names[0], Tried: 1 << 20, Message: "CUDA out of memory."}
	r.Fits = []estimate.Fit{{Limit: estimate.Budget, Bytes: 1 << 20, Need: p.Device, By: "device_bytes"}}
	r.WhatIf = []estimate.Variant{{Change: "--precision bf16", Allocated: 1, Reserved: 2, Device: 3},
		{Change: "--batch 2", Error: "no"}}
	r.Stats = map[string]int64{"active.all.current": 7, "active.all.peak": 8}
	return r
}

// The phases show the first step, a steady one, and the one with the peak where it is not like that.
func TestPhasesShown(t *testing.T) {
	r := ran(fake(1, hostile), hostile)
	words := func() (out []string) {
		for _, row := range Phases(r).Rows {
			out = append(out, row[0])
		}
		return out
	}
	steady := r.Phases[2]
	if got := strings.Join(words(), "|"); got != "before|first|steady" {
		t.Errorf("%q", got)
	}
	second := estimate.Phase{Step: 2, Name: "forward", End: 9, Peak: 4096}
	r.Phases = []estimate.Phase{r.Phases[0], r.Phases[1], second, steady}
	if got := strings.Join(words(), "|"); got != "before|first|step 2|steady" {
		t.Errorf("%q", got)
	}
	r.Phases[2].Peak = steady.Peak
	if got := strings.Join(words(), "|"); got != "before|first|steady" {
		t.Errorf("%q", got)
	}
}

// The column of bytes adds up exactly: what stands above each sum is it.
func TestBreakdownAddsUp(t *testing.T) {
	for _, n := range []int{1, 3} {
		r := ran(fake(n, hostile), hostile)
		g := Breakdown(r)
		sum, sums, mebibytes := int64(0), 0, 0.0
		for _, row := range g.Rows[:len(g.Rows)-3] { // the last ones are bounds
			n := int64(number(t, row[1]))
			if !strings.HasPrefix(row[0], "= ") {
				sum += n
				mebibytes += number(t, row[2])
				continue
			}
			sums++
			if sum != n {
				t.Errorf("%q: printed %d, the lines above add up to %d", row[0], n, sum)
			}
			if total := number(t, row[2]); mebibytes-total > 0.07 || total-mebibytes > 0.07 {
				t.Errorf("%q: printed %v, the lines above add up to %v", row[0], total, mebibytes)
			}
		}
		if sums != 3 || sum != r.Peak.Device {
			t.Errorf("%d sums, the last is %d, want %d", sums, sum, r.Peak.Device)
		}
	}
}

// Names of layers are as safe about the run as they are in the table.
func TestRunKeepsItsShape(t *testing.T) {
	r := ran(fake(len(hostile), hostile), hostile)
	var text, markdown bytes.Buffer
	must.OK(t, Text(&text, r, 0))
	must.OK(t, Markdown(&markdown, r))
	if markdown.Len() > MarkdownLimit {
		t.Errorf("Markdown of %d bytes", markdown.Len())
	}
	for _, out := range []string{text.String(), markdown.String()} {
		for line := range strings.Lines(out) {
			if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "::") || strings.Contains(trimmed, "##[") {
				t.Errorf("line %q is a command to a CI runner", line)
			}
			for _, c := range strings.TrimSuffix(line, "\n") {
				if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 {
					t.Errorf("line %q has a control character", line)
					break
				}
			}
			if len(line) > 1000 {
				t.Errorf("a line of %d bytes", len(line))
			}
		}
	}
	for _, want := range []string{"training in fp32 with adamw, loss mean: ", "at least", "does not fit: ",
		"out of memory in the forward pass of step 1"} {
		if want == "at least" {
			if strings.Contains(text.String(), want) {
				t.Errorf("a complete estimate says %q", want)
			}
			continue
		}
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text does not say %q", want)
		}
	}
	r.Coverage.Modelled--
	text.Reset()
	if err := Text(&text, r, 0); err != nil || !strings.Contains(text.String(), "at least ") {
		t.Errorf("an incomplete estimate does not say that it is a lower bound: %v", err)
	}
}

// The largest batch is told with what it takes, and so is that none fits.
func TestFitSentences(t *testing.T) {
	f := &estimate.Fitting{Model: "m", Memory: 10 << 30, Batch: 6, Likely: 5, Safe: 4, SafeShare: 0.98,
		Settings: estimate.Settings{Mode: "infer", Settings: torch.Settings{Precision: "bf16"}}}
	for i := range 9 {
		n := int64(i + 1)
		f.Curve = append(f.Curve, estimate.Point{Batch: n, Device: n << 30, Likely: n<<30 + 1<<20, SafeBytes: (n + 1) << 30,
			Fits: n <= 6, Safe: n <= 4})
	}
	got := strings.Join(FitSentences(f, estimate.Safe), "\n")
	want := `m, inference in bf16
batch 4 is safe: fewer than two runs in a hundred take more than 5.00 GiB
batch 6 is the largest that fits 10.00 GiB: it takes 6.00 GiB`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	screen := func() string {
		var b strings.Builder
		FitScreen(&b, f, estimate.Safe, Look{})
		return b.String()
	}
	want = `m: inference in bf16

memory                     10.00 GiB  given
safe       batch 4          5.00 GiB  fewer than two runs in a hundred take more
predicted  batch 6          6.00 GiB  what is simulated
`
	if got := screen(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	f.SafeShare = 0.97 // as of trainings from default exports
	for _, said := range []string{screen(), strings.Join(FitSentences(f, estimate.Safe), "\n")} {
		if !strings.Contains(said, "fewer than three runs in a hundred take more") {
			t.Errorf("three in a hundred are not told:\n%s", said)
		}
	}
	var batches []string
	for _, row := range ShortFitCurve(f).Rows {
		batches = append(batches, row[0])
	}
	if got := strings.Join(batches, " "); got != "1 2 4 5 6 7" {
		t.Errorf("a screen shows the batches %s", got)
	}
	f.Batch, f.Likely, f.Safe = 0, 0, 0
	if got := screen(); !strings.Contains(got, "safe       no batch         2.00 GiB  for one sample\n") {
		t.Error(got)
	}
	if got := FitSentences(f, estimate.Predicted)[1]; got != "not even one sample fits 10.00 GiB: it takes 1.00 GiB" {
		t.Error(got)
	}
	if got := FitSentences(f, estimate.Safe)[1]; got != "no batch is safe: to be, one sample needs 2.00 GiB" {
		t.Error(got)
	}
	for i, row := range FitCurve(f, true).Rows {
		if row[0] != strconv.Itoa(i+1) || row[3] != strconv.Itoa((i+1)<<30) {
			t.Errorf("row %d: %q", i, row)
		}
	}
}

// TestNoBoundWhereTheScriptWasEnded holds that figures of a script's first steps are not taken for all of it: an
// evaluation behind them may take more.
func TestNoBoundWhereTheScriptWasEnded(t *testing.T) {
	names := []string{"conv1", "conv2", "fc"}
	r := ran(fake(3, names), names)
	r.Settings.Ended, r.Settings.NoBound = true, "only of the steps that were recorded"
	rows := Breakdown(r).Rows
	for i := len(rows) - 2; i < len(rows); i++ {
		if rows[i][3] != "no bound: only of the steps that were recorded" {
			t.Errorf("row %q", rows[i])
		}
	}
	if s := Headline(r)[0]; !strings.HasSuffix(s, " safe in the steps that were recorded") {
		t.Errorf("the first sentence is %q", s)
	}
}

// The headline says where the order of einsum's operands is not the one that PyTorch takes with opt_einsum.
func TestHeadlineWithoutOptEinsum(t *testing.T) {
	names := []string{"conv1", "conv2", "fc"}
	r := ran(fake(3, names), names)
	if s := Headline(r)[0]; strings.Contains(s, "opt_einsum") {
		t.Errorf("the first sentence is %q", s)
	}
	r.Settings.Contracted = true
	if s := Headline(r)[0]; !strings.HasPrefix(s, "recorded without opt_einsum: ") {
		t.Errorf("the first sentence is %q", s)
	}
}

// What is at most is not printed where it is no bound.
func TestAtMostIsABound(t *testing.T) {
	names := []string{"conv1", "conv2", "fc"}
	r := ran(fake(3, names), names)
	printed := func() bool {
		return slices.ContainsFunc(Breakdown(r).Rows, func(row []string) bool { return row[0] == "at most" })
	}
	if !printed() {
		t.Error("at most is not printed")
	}
	r.Settings.NoBound = "steps that were like others were left out"
	if rows := Breakdown(r).Rows; printed() || rows[len(rows)-1][3] != "no bound: steps that were like others were left out" {
		t.Errorf("rows %q", rows)
	}
}

// Where a recording hangs on values, the figures that are a bound otherwise are called none, everywhere.
func TestNoBoundWhereValuesDecide(t *testing.T) {
	names := []string{"conv1", "conv2", "fc"}
	r := ran(fake(3, names), names)
	plain := Breakdown(r).Rows
	r.Depends = &estimate.Dependence{Places: []estimate.Asked{{File: "model.py", Line: 3}}, Unweighed: 1}
	rows := Breakdown(r).Rows
	for i := len(rows) - 2; i < len(rows); i++ {
		if rows[i][3] != "no bound: only if the values are as taken" || rows[i][1] != plain[i+1][1] {
			t.Errorf("row %q, without values %q", rows[i], plain[i+1])
		}
	}
	if s := Headline(r)[0]; !strings.HasSuffix(s, " safe if the values are as taken") {
		t.Errorf("the first sentence is %q", s)
	}
	var b strings.Builder
	must.OK(t, (&Answer{Report: r}).Text(&b, Look{}))
	if n := strings.Count(b.String(), "no bound: only if the values are as taken"); n != 1 {
		t.Errorf("the answer says it %d times:\n%s", n, &b)
	}
	fits := &estimate.Fit{Fits: true}
	if got := FitWords(r, fits); got != "fits if the values are as taken" {
		t.Error(got)
	}
	r.Depends.Bound = true // these take the most that there is
	if got := FitWords(r, fits); got != "fits" || !slices.EqualFunc(Breakdown(r).Rows, plain, slices.Equal[[]string]) {
		t.Errorf("%s, %q", got, Breakdown(r).Rows)
	}
}
