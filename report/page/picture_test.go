package page

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/must"
)

// simulated is a training step of a built-in model on a GPU, all of whose memory is its own.
func simulated(t *testing.T, name string, batch int64, device string) *estimate.Simulation {
	t.Helper()
	data, err := models.Open(name)
	must.OK(t, err)
	m, err := onnxload.Read(bytes.NewReader(data), int64(len(data)), onnxload.Options{Path: name})
	must.OK(t, err)
	bound, err := estimate.Bind(m, estimate.Options{Name: name, Batch: batch})
	must.OK(t, err)
	g, err := gpu.Find(device)
	must.OK(t, err)
	sim, err := bound.Simulate(estimate.Step{Record: true, GPU: g, Limited: true})
	must.OK(t, err)
	return sim
}

// outOfMemory is a page of a run that a T4 has no memory for.
func outOfMemory(t *testing.T) (*Page, *estimate.Simulation) {
	sim := simulated(t, "resnet50", 256, "t4")
	if sim.Replay.OOM == nil {
		t.Fatal("resnet50 at batch 256 fits a T4")
	}
	run := Predicted("predicted", sim.Run.Log.Source(), sim.Replay, func(block int32) []string {
		x, ok := sim.Run.Tensor(block)
		if !ok {
			return nil
		}
		return []string{fmt.Sprint(x.DType, x.Shape), "saved by " + x.Saved}
	})
	g, _ := gpu.Find("t4")
	run.Capacity = Capacity{Bytes: g.Memory - sim.Context, Name: g.Name}
	return &Page{Title: "resnet50", Subtitle: "training", Verdicts: []Verdict{{Text: "Does not fit"}, {true, "Fits"}},
		Facts: []Fact{{Name: "Asked for", Value: "392.00 MiB", About: "then"}}, Notes: []string{"a note"}, Runs: []Run{run},
		Chart: &Chart{Title: "What if", Capacity: Capacity{g.Memory, g.Name},
			Bars: []Bar{{Name: "as it is", Bytes: 25 << 30, Base: true, Over: true}, {Name: "--batch 128", Bytes: 13 << 30,
				Note: "-48.1 %"}, {Name: "--compile",
				Error: "cannot be simulated: no linear layer can be divided along its columns and have its result read"}}},
		Curve: &Curve{Memory: g.Memory, Points: []Point{{1, 1 << 30, 2 << 30}, {256, 25 << 30, 27 << 30}},
			Limits: []Capacity{{g.Memory, "T4"}, {24 << 30, "RTX 4090"}, {140 << 30, "H200"}}}}, sim
}

// Where memory runs out the picture ends, with the request that failed, below the memory that there is.
func TestOutOfMemory(t *testing.T) {
	p, sim := outOfMemory(t)
	b := open(t, p, 1200, 900)
	text := func(id string) string { return eval[string](t, b, `document.getElementById("`+id+`").textContent`) }
	live := int64(0)
	for _, n := range sim.Run.Log.Source().ByCategory(sim.Replay.OOMEvent - 1) {
		live += n
	}
	want := fmt.Sprintf("%s live, %s reserved", report.Size(live), report.Size(sim.Replay.OOM.Reserved))
	if got := text("h-moment"); !strings.HasPrefix(got, "When memory ran out: ") || !strings.HasSuffix(got, want) {
		t.Errorf("%q, wanted %s", got, want)
	}
	for _, r := range p.Runs {
		for i, e := range r.Timeline.Each {
			if e.Step > 1 {
				t.Fatalf("event %d is of step %d, after the failure", i, e.Step)
			}
		}
	}
	// Why there is no bar takes no room from those that there are.
	if high := eval[int](t, b, `document.querySelector(".chart tbody tr:nth-child(2)").offsetHeight`); high > 40 {
		t.Errorf("a line of the chart is %d pixels high", high)
	}
	b.goTo(t, "Out of memory")
	if got, want := text("status"), "Out of memory: "+report.Size(sim.Replay.OOM.Tried)+
		" are asked for"; !strings.HasPrefix(got, want) {
		t.Errorf("%q, wanted %s", got, want)
	}
	// Red are the line of the memory, that of the failure, and what could not be had.
	red := eval[[]int](t, b, `(() => { const c = document.querySelector("#plot canvas"), d = `+
		`c.getContext("2d").getImageData(0, 0, c.width, c.height).data; let rows = new Set(), columns = new Set(), n = 0; `+
		`for (let y = 0; y < c.height; y++) for (let x = 0; x < c.width; x++) { const i = 4 * (y * c.width + x); if (d[i] `+
		`> 170 && d[i + 1] < 60 && d[i + 2] < 70) { n++; rows.add(y); columns.add(x); } } return [n, `+
		`rows.size, columns.size] })()`)
	if red[0] < 2000 || red[1] < 300 || red[2] < 900 {
		t.Errorf("%d red pixels in %d rows and %d columns", red[0], red[1], red[2])
	}
	// A tensor says what it is.
	b.goTo(t, "step 1 forward")
	b.do(t, chromedp.MouseEvent("mouseMoved", 700, eval[float64](t, b,
		`document.querySelector(".u-over").getBoundingClientRect().bottom - 60`)))
	if tip := text("tip"); !strings.Contains(tip, "float32[256 64 112 112]saved by Convolution") &&
		!strings.Contains(tip, "saved by BatchNorm") {
		t.Errorf("tip %q", tip)
	}
	// The chart and the curve have what they were given, the GPU that is far above left out.
	if got := eval[string](t, b, `[...document.querySelectorAll(".chart tbody tr")].map(r => [...r.cells].filter(c => `+
		`!c.ariaHidden).map(c => c.textContent).join(" ")).join(", ") + "; " + [...document.querySelectorAll(".curve `+
		`.name")].map(x => x.textContent).join(", ")`); got != "as it is 25.00 GiB , --batch 128 13.00 GiB -48.1 %, "+
		"--compile cannot be simulated: no linear layer can be divided along its columns and have its result read; "+
		"RTX 4090, T4" {
		t.Errorf("chart and curve: %q", got)
	}
	b.shot(t, "oom")
	b.quiet(t)
}

// The wheel is the page's; with Ctrl it zooms. A drag moves the picture, a click holds an event and shows the layer in
// the table; the table shows its layers in the picture.
func TestMoving(t *testing.T) {
	b := open(t, samplePage(steps(20, 2, plain)), 1280, 900)
	view := func() (min, max int) {
		if _, err := fmt.Sscan(eval[string](t, b, `document.getElementById("plot").dataset.view`), &min, &max); err != nil {
			t.Fatal(err)
		}
		return min, max
	}
	frames := func() {
		eval[bool](t, b, `new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))`,
			chromedp.EvalAwaitPromise)
	}
	wheel := func(ctrl bool) bool {
		return eval[bool](t, b, fmt.Sprintf(`(() => { const o = document.querySelector(".u-over"), r = `+
			`o.getBoundingClientRect(); return o.dispatchEvent(new WheelEvent("wheel", {deltaY: -100, ctrlKey: %v, clientX: `+
			`r.left + r.width / 2, clientY: r.top + 50, bubbles: true, cancelable: true})) })()`, ctrl))
	}
	if !wheel(false) {
		t.Error("the wheel does not scroll the page")
	}
	if from, to := view(); from != 0 || to != 260 {
		t.Errorf("the wheel alone changes the view: %d to %d", from, to)
	}
	for range 4 {
		if wheel(true) {
			t.Error("Ctrl and the wheel zoom the page")
		}
	}
	from, to := view()
	if to-from > 150 || to-from < 50 {
		t.Errorf("Ctrl and the wheel show %d to %d", from, to)
	}
	y := eval[float64](t, b, `document.querySelector(".u-over").getBoundingClientRect().bottom - 4`)
	b.do(t, chromedp.MouseEvent("mousePressed", 600, y, chromedp.ButtonLeft),
		chromedp.MouseEvent("mouseMoved", 650, y, chromedp.ButtonLeft))
	frames()
	b.do(t, chromedp.MouseEvent("mouseMoved", 800, y, chromedp.ButtonLeft))
	frames()
	b.do(t, chromedp.MouseEvent("mouseReleased", 800, y, chromedp.ButtonLeft))
	if a, z := view(); a >= from || z-a != to-from {
		t.Errorf("a drag shows %d to %d, from %d to %d", a, z, from, to)
	}
	if got := eval[string](t, b, `document.getElementById("h-moment").textContent`); !strings.HasPrefix(got,
		"At the peak") {
		t.Errorf("a drag holds an event: %s", got)
	}
	chosen := func() string {
		return eval[string](t, b, `[...document.querySelectorAll("tr.chosen")].map(r => r.dataset.layer).join()`)
	}
	b.do(t, chromedp.MouseEvent("mouseMoved", 500, y), chromedp.MouseEvent("mousePressed", 500, y, chromedp.ButtonLeft,
		chromedp.ClickCount(1)),
		chromedp.MouseEvent("mouseReleased", 500, y, chromedp.ButtonLeft, chromedp.ClickCount(1)))
	if got := chosen(); got != "block1.conv" {
		t.Errorf("a click on block1.conv marks %q", got)
	}
	// From the table to the picture, and on by the arrows.
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector('tr[data-layer="block3.conv"] button').click()`))
	if got := eval[string](t, b, `document.getElementById("status").textContent`); !strings.HasPrefix(got,
		"block3.conv: 7 allocations, ") || chosen() != "block3.conv" {
		t.Errorf("a layer of the table says %q, %q is marked", got, chosen())
	}
	b.do(t, chromedp.Evaluate[chromedp.Void](`{ const x = document.querySelector('tr[data-layer="block3.conv"] `+
		`button'); x.focus(); x.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowDown", bubbles: true, `+
		`cancelable: true})) }`))
	if got := eval[string](t, b, `document.activeElement.textContent`); got != "block4.conv" {
		t.Errorf("the arrow goes to %q", got)
	}
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#plot").focus(); `+
		`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "/", bubbles: true, cancelable: true}))`))
	if got := eval[string](t, b, `document.activeElement.id`); got != "find" {
		t.Errorf("/ goes to %q", got)
	}
	b.quiet(t)
}

// axe-core finds nothing, whatever the width and the colours; and nothing sticks out.
func TestAccessible(t *testing.T) {
	axe := must.Read(t, "testdata/axe-core/axe.min.js")
	oom, _ := outOfMemory(t)
	tl := steps(6, 1, plain)
	traced := samplePage(tl)
	traced.Runs[0].Trace = recorded(tl, 2)
	two := samplePage(steps(6, 1, plain))
	two.Runs = append(two.Runs, Run{Name: "measured", Timeline: tl.Source(), Inferred: true})
	for name, p := range map[string]*Page{"oom": oom, "traced": traced, "two": two,
		"fit": {Title: "fit", Curve: oom.Curve, Verdicts: oom.Verdicts, Tables: []Table{{Title: "Curve", Grid: &report.Grid{
			Columns: []report.Column{{Title: "batch", Right: true}}, Rows: [][]string{{"1"}, {"2"}}}}}}} {
		b := open(t, p, 1200, 900)
		for _, width := range []int64{1280, 390} {
			for _, scheme := range []string{"light", "dark"} {
				do := func(ctx context.Context) error {
					_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
						Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
					return err
				}
				must.OK(t, do(b.ctx))
				b.do(t, chromedp.EmulateViewport(width, 900), chromedp.Reload(), chromedp.WaitReady("html[data-ready=yes]"))
				if got := eval[string](t, b, `document.documentElement.dataset.theme`); got != scheme {
					t.Errorf("%s: %s colours, wanted %s", name, got, scheme)
				}
				eval[bool](t, b, string(axe)+"; true")
				found := eval[[]string](t, b, `axe.run().then(r => r.passes.length < 10 ? ["axe has tried " + r.passes.length + `+
					`" rules"] : r.violations.flatMap(v => `+
					`v.nodes.map(n => v.id + ": " + n.html.slice(0, 200) + " " + n.failureSummary)))`,
					chromedp.EvalAwaitPromise)
				for _, f := range found {
					t.Errorf("%s, %d pixels, %s: %s", name, width, scheme, f)
				}
				if wide := eval[int](t, b, `document.documentElement.scrollWidth`); wide > int(width) {
					t.Errorf("%s is %d pixels wide, wanted %d", name, wide, width)
				}
				if high := eval[int](t, b, `document.documentElement.scrollHeight`); high >= 5000 {
					t.Errorf("%s at %d is %d pixels high, wanted below 5000", name, width, high)
				}
				b.shot(t, fmt.Sprintf("%s-%d-%s", name, width, scheme))
			}
		}
	}
}
