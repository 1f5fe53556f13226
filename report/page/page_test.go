package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// Hover, keys, search, sorting, phases and themes do what they say.
func TestPage(t *testing.T) {
	tl := steps(20, 2, plain)
	b := open(t, samplePage(tl), 1280, 900)
	text := func(id string) string { return eval[string](t, b, `document.getElementById("`+id+`").textContent`) }
	// Load takes 20 events, forward 60; the peak is the third event of backward.
	if got := text("h-moment"); !strings.Contains(got,
		"At the peak: event 82, step 1 backward, 204.00 MiB live, 224.00 MiB reserved") {
		t.Errorf("heading %q", got)
	}
	// The browser's sums are those of the timeline.
	rows := eval[string](t, b, `[...document.querySelectorAll("#breakdown tbody tr")].map(r => r.cells[0].textContent + `+
		`" " + r.cells[1].textContent).join(", ")`)
	_, at := tl.Source().Peak()
	by := tl.Source().ByCategory(at)
	if want := fmt.Sprintf("activations %s, parameters %s, gradients %s", report.Size(by[timeline.Activation]),
		report.Size(by[timeline.Parameter]), report.Size(by[timeline.Gradient])); rows != want {
		t.Errorf("breakdown %q, wanted %q", rows, want)
	}
	// The band under the pointer is told.
	b.do(t, chromedp.MouseEvent("mouseMoved", 500, eval[float64](t, b,
		`document.querySelector(".u-over").getBoundingClientRect().bottom - 4`)))
	if tip := text("tip"); !strings.Contains(tip, "block1.conv2.00 MiB, parametersfrom event 1 (load) to the end") {
		t.Errorf("tip %q", tip)
	}
	b.shot(t, "hover")
	// Keys.
	for _, k := range []struct{ js, want string }{
		{"ArrowRight", "event 83, step 1 backward, 199.00 MiB live"}, {"ArrowLeft", "event 82,"}, {"Home",
			"event 0, load, 1.00 MiB live"}, {"End", "event 259, step 2 optimizer"},
		{"ArrowDown", "block6.conv, 7.00 MiB, parameters, from event 6 (load) to the end"}, {"p", "event 82,"}, {"Escape",
			"The whole run: 260 events."},
	} {
		eval[bool](t, b, `document.getElementById("plot").dispatchEvent(new KeyboardEvent("keydown", {key: "`+k.js+
			`", bubbles: true, cancelable: true})); true`)
		if got := text("status"); !strings.Contains(got, k.want) {
			t.Errorf("%s says %q, wanted %q", k.js, got, k.want)
		}
	}
	// Search dims the others, and filters the table.
	b.do(t, chromedp.SendKeys("#find", "BLOCK1"))
	if got := text("status"); !strings.Contains(got, "11 of 20 layers match, with 77 allocations") {
		t.Errorf("search says %q", got)
	}
	if n := eval[int](t, b, `[...document.querySelectorAll("table.big")].find(x => `+
		`x.classList.contains("layers")).querySelectorAll("tbody tr:not([hidden])").length`); n != 11 {
		t.Errorf("%d rows are left, wanted 11", n)
	}
	b.shot(t, "search")
	b.do(t, chromedp.Evaluate[chromedp.Void](`const f = document.getElementById("find"); f.value = ""; `+
		`f.dispatchEvent(new Event("input"))`))
	// Sorting.
	sorted := func(column int) string {
		return eval[string](t, b, fmt.Sprintf(`(() => { const tb = [...document.querySelectorAll("table.big")].find(x => `+
			`x.classList.contains("layers")); tb.tHead.rows[0].cells[%d].querySelector("button").click(); return `+
			`tb.tHead.rows[0].cells[%d].getAttribute("aria-sort") + " " + tb.tBodies[0].rows[0].cells[0].textContent })()`,
			column, column))
	}
	for _, c := range []struct {
		column int
		want   string
	}{{0, "ascending block0.conv"}, {0, "descending block19.conv"}, {2, "descending block15.conv"}, {2,
		"ascending block14.conv"}} {
		if got := sorted(c.column); got != c.want {
			t.Errorf("column %d sorts %q, wanted %q", c.column, got, c.want)
		}
	}
	// A phase, a category, the theme.
	b.goTo(t, "step 2 forward")
	if got := text("status"); !strings.Contains(got, "step 2 forward") {
		t.Errorf("phase says %q", got)
	}
	b.do(t, chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll("#legend button")].find(x => x.textContent `+
		`=== "activations").click()`))
	if got := text("status"); got != "Coloured: activations." {
		t.Errorf("legend says %q", got)
	}
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.getElementById("theme").click()`))
	if got := eval[string](t, b, `document.documentElement.dataset.theme + " " + `+
		`getComputedStyle(document.body).backgroundColor`); got != "dark rgb(15, 19, 24)" {
		t.Errorf("theme %q", got)
	}
	b.shot(t, "dark")
	b.quiet(t)
}

// Two runs lie over each other by phase, and the tables tell them apart.
func TestTwoRuns(t *testing.T) {
	p := samplePage(steps(20, 1, plain))
	other := steps(20, 1, func(i int) string { return plain(i + 1) })
	p.Runs = append(p.Runs, Run{Name: "measured", Timeline: other.Source(), Inferred: true})
	b := open(t, p, 1280, 900)
	captions := eval[string](t, b,
		`[...document.querySelectorAll("#tables h2")].map(c => c.textContent).join(", ")`)
	if captions != "Differences by category, Differences by layer, the largest first, Differences by phase" {
		t.Errorf("tables %q", captions)
	}
	if n := eval[int](t, b, `document.querySelectorAll(".u-wrap").length`); n != 1 {
		t.Errorf("%d plots", n)
	}
	b.shot(t, "two")
	b.do(t, chromedp.Evaluate[chromedp.Void](`const s = document.getElementById("run"); s.value = "1"; `+
		`s.dispatchEvent(new Event("change"))`))
	if got := eval[string](t, b, `document.getElementById("status").textContent`); !strings.HasPrefix(got,
		"measured: event 82") {
		t.Errorf("the other run says %q", got)
	}
	b.quiet(t)
}

// Beside a prediction, what only a recording knows is shown of the recording alone; on a narrow page nothing sticks
// out.
func TestTwoKindsOfRuns(t *testing.T) {
	tl := steps(6, 1, plain)
	p := samplePage(steps(6, 1, plain))
	p.Runs = append(p.Runs, Run{Name: "measured", Timeline: tl.Source(), Trace: recorded(tl, 2), Inferred: true})
	b := open(t, p, 390, 800)
	choose := func(run string) string {
		b.do(t, chromedp.Evaluate[chromedp.Void](`{ const s = document.getElementById("run"); s.value = "`+run+
			`"; s.dispatchEvent(new Event("change")) }`))
		return eval[string](t, b, `["bands", "flames", "frees"].map(x => document.getElementById(x).hidden).join() + " " + `+
			`document.getElementById("bands").textContent`)
	}
	if got := choose("0"); got != "true,true,true Show segments" {
		t.Errorf("of the prediction: %s", got)
	}
	if got := choose("1"); got != "false,false,false Show segments" {
		t.Errorf("of the recording: %s", got)
	}
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.getElementById("bands").click()`))
	if got := eval[string](t, b, `document.getElementById("bands").textContent`); got != "Show allocations" {
		t.Errorf("of its segments: %s", got)
	}
	if got := choose("0"); got != "true,true,true Show segments" {
		t.Errorf("of the prediction again: %s", got)
	}
	if got := eval[string](t, b, `document.getElementById("h-segments").textContent`); got != "The allocator's segments at the end" {
		t.Errorf("%q is said of the prediction's", got)
	}
	if wide := eval[float64](t, b,
		`Math.max(...[...document.querySelectorAll("#breakdown, #largest, #plot, .tools")].map(x => `+
			`x.getBoundingClientRect().right)) - innerWidth`); wide > 0 {
		t.Errorf("the page is %.0f pixels too wide", wide)
	}
	b.shot(t, "narrow")
	b.quiet(t)
}

// Names from files are text, whatever they hold.
func TestHostileNames(t *testing.T) {
	evil := []string{"</script><script>window.hacked=1</script>", "<img src=x onerror=window.hacked=1>", "{{.Title}}",
		"javascript:alert(1)", "\x1b[2J\u202egnp.exe", "]]>--><!--", "a\x00b\xff", `"onmouseover="window.hacked=1`,
		"</title></style>", "`${window.hacked=1}`"}
	p := samplePage(steps(len(evil), 1, func(i int) string { return evil[i] }))
	p.Title = evil[0] + evil[8]
	p.Facts = append(p.Facts, Fact{Name: evil[1], Value: evil[0], About: evil[1]})
	p.Notes = evil
	p.Runs[0].Name = evil[0]
	p.Runs[0].Segments[0].Blocks[0].Label = evil[1]
	p.Tables = []Table{{Title: evil[0], Grid: &report.Grid{Columns: []report.Column{{Title: evil[1], File: true}},
		Rows: [][]string{{evil[0]}}, Footer: []string{evil[1]}}}}
	p.Runs = append(p.Runs, Run{Name: evil[1], Timeline: steps(3, 1, func(i int) string { return evil[i] }).Source()})
	b := open(t, p, 1280, 900)
	b.do(t, chromedp.MouseEvent("mouseMoved", 500, eval[float64](t, b,
		`document.querySelector(".u-over").getBoundingClientRect().bottom - 2`)))
	b.do(t, chromedp.SendKeys("#find", "<img"))
	b.shot(t, "hostile")
	if got := eval[string](t, b, `String(window.hacked) + document.images.length + `+
		`document.scripts.length`); got != "undefined03" {
		t.Errorf("a name became markup: %q", got)
	}
	if got := eval[bool](t, b, `/[\u0000-\u0008\u000e-\u001f\u202e]/.test(document.body.innerText)`); got {
		t.Error("control characters reach the page")
	}
	b.quiet(t)
}

// What the program did not write itself is text, in an attribute too.
func TestMarkupEscapes(t *testing.T) {
	const name = `"><script>alert('&')</script>`
	var m markup
	m.Add(`<p title="%s">%s</p>`, name, name)
	m.AddIf(false, "<p>%s</p>", name)
	const text = "&#34;&gt;&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;"
	if got, want := m.String(), `<p title="`+text+`">`+text+`</p>`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// 100,000 events are drawn within 2 seconds, and moving stays fluid: of the processor's time, which is what the page is
// answerable for. On a machine that has nothing else to do that is the time one waits.
func TestManyEvents(t *testing.T) {
	tl := steps(500, 40, plain)
	if n := tl.Len(); n < 100_000 {
		t.Fatalf("only %d events", n)
	}
	const zooms = 11
	b := open(t, samplePage(tl), 1600, 900)
	waited := eval[float64](t, b, `performance.timing.domContentLoadedEventEnd - performance.timing.navigationStart`)
	loaded := b.work(t)
	took := eval[float64](t, b, `(() => { const t0 = performance.now(); for (let i = 0; i < 5; i++) `+
		`document.getElementById("in").click(); for (let i = 0; i < 5; i++) document.getElementById("out").click(); `+
		`document.getElementById("all").click(); return new Promise(r => requestAnimationFrame(() => `+
		`requestAnimationFrame(() => r(performance.now() - t0)))) })()`, chromedp.EvalAwaitPromise)
	step := (b.work(t) - loaded) / zooms
	t.Logf("%d events: loaded and drawn in %.0f ms of the processor's time, %.0f ms in all; %.1f ms a step of "+
		"zoom, %.1f ms in all", tl.Len(), loaded, waited, step, took/zooms)
	if loaded < 50 || loaded > 2000 {
		t.Errorf("%.0f ms to load and draw, wanted 2000 at most, and that it was measured", loaded)
	}
	if step <= 0 || step > 100 {
		t.Errorf("%.1f ms a step of zoom, wanted 100 at most, and that it was measured", step)
	}
	b.view(t, "many")
	b.quiet(t)
}
