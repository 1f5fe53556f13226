package estimate

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

const figuresFile = "testdata/figures.txt"

// publishedSets have models as their authors publish them, each set measured once before anybody had worked on it, and
// exports of them: TorchScript's, and of the last two also torch.export's, kept for training and default, all without
// their lines.
var publishedSets = []string{"testdata/published86", "testdata/published109", "testdata/published75",
	"testdata/published78"}

// imagesOf is how many images a query or pair has, of the models whose batch counts those.
var imagesOf = map[string]int64{"netvlad_vgg16": 7, "simclr_resnet18": 2, "supcon": 2}

var writeFigures = flag.Bool("accuracy.figures", false, "write "+figuresFile+" and "+beyondFigures+" anew")

// An asked is one case of the accuracy tables: what is estimated from which graph.
type asked struct {
	name        string
	model, form string
	dir         string // of the graph; "" for a built-in one
	batch       int64
	step        Step
	measured    int64 // the peak of what was allocated; 0 where it is not known
	reserved    int64 // and of what was reserved
}

// askedCases lists every case of the accuracy tables, in their order.
func askedCases(t testing.TB) (all []asked) {
	t.Helper()
	defer func() { *graphs, *onlyForm = "", "" }()
	add := func(title, dir, form string, cases []measuredCase, keep func(measuredCase) bool) {
		*graphs, *onlyForm = dir, form
		for _, c := range cases {
			if f := formOf(c.Model); f != "" && keep(c) {
				all = append(all, asked{title + ": " + c.name() + " " + f, c.Model, f, dir, c.Batch, c.step(), c.PeakAlloc,
					c.PeakReserved})
			}
		}
	}
	every := func(measuredCase) bool { return true }
	built := readCases(t, *casesFile)
	add("built-in", "", "", built, every)
	for _, form := range []string{"ts-eval", "dynamo", "dynamo-train"} {
		add("form", "", form, built, func(c measuredCase) bool {
			return c.Mode == "train" && c.DType == "fp32" &&
				!bool(c.ChannelsLast)
		})
	}
	for _, s := range append([]furtherSet{{dir: "testdata/unseen"}, {dir: "testdata/lines"}}, furtherSets...) {
		title, cases := strings.TrimPrefix(s.dir, "testdata/"), readCases(t, s.dir+"/steps.json.gz")
		add(title, s.dir, "", cases, every)
		add(title, s.dir, "dynamo-train", cases, func(c measuredCase) bool { return c.Mode == "train" })
	}
	for _, dir := range publishedSets {
		title, cases := strings.TrimPrefix(dir, "testdata/"), readCases(t, dir+"/steps.json.gz")
		for i := range cases {
			cases[i].Batch *= max(imagesOf[cases[i].Model], 1)
		}
		for _, form := range []string{"ts-train", "dynamo-train", "dynamo"} {
			add(title, dir, form, cases, every)
		}
	}
	*graphs, *onlyForm = "", ""
	for _, c := range readVariants(t) {
		form := formOf(c.Model)
		name := fmt.Sprintf("variant: %s %s cap %d %s", c.name(), c.kind(), c.CapMiB, form)
		all = append(all, asked{name, c.Model, form, "", c.Batch, c.step(), c.PeakAlloc, c.PeakReserved})
	}
	return all
}

// figures returns the line of a case: what is allocated and reserved at the peak, the upper bound, and what autograd
// saved.
func (a asked) figures(t testing.TB) string {
	e := graphCase{a.dir, a.model, a.form, a.batch}.estimate(t, a.step)
	if e.err != nil {
		return fmt.Sprintf("%s: %v", a.name, e.err)
	}
	return fmt.Sprintf("%s: %d %d %d %d", a.name, e.allocated, e.reserved, e.upper, e.saved)
}

// TestFigures compares the estimate of every case of the accuracy tables with the one that is written down, so that no
// change of a rule changes one unseen. A change that is meant writes them anew, with -accuracy.figures, and gives the
// reason. Without -every some cases are taken in turn.
func TestFigures(t *testing.T) {
	cases := askedCases(t)
	lines := make([]string, len(cases))
	var todo sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		todo.Go(func() {
			for i := range next {
				if inTurn(i) {
					lines[i] = cases[i].figures(t)
				}
			}
		})
	}
	for i := range cases {
		next <- i
	}
	close(next)
	todo.Wait()
	holdLines(t, figuresFile, lines)
}

// holdLines compares lines but those that are empty with those of a file, or writes it with -accuracy.figures.
func holdLines(t *testing.T, file string, lines []string) {
	t.Helper()
	if *writeFigures {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	differ, n := 0, 0
	for s := bufio.NewScanner(f); s.Scan(); n++ {
		if n < len(lines) && lines[n] != "" && lines[n] != s.Text() {
			if differ++; differ <= 40 {
				t.Errorf("got  %s\nwant %s", lines[n], s.Text())
			}
		}
	}
	if n != len(lines) || differ > 0 {
		t.Errorf("%d of %d cases differ from %s, which has %d", differ, len(lines), file, n)
	}
}
