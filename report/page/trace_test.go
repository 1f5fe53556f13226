package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// recorded is a timeline as a recording of it would be: events of segments and
// the second halves of frees in between, two allocations from before it, and an
// allocation that failed at the end.
func recorded(l *timeline.Log, before int) *Trace {
	x := &Trace{Frames: []string{"u/net.py:7:forward", "u/train.py:3:<module>"}, Stacks: [][]int32{{0, 1}}}
	addr := int64(1 << 32)
	next := 0
	allocs := 0
	for e := range l.Events {
		switch {
		case e.Kind == timeline.Alloc && allocs < before:
			x.Number = append(x.Number, -1)
			x.Segments = append(x.Segments, TraceSegment{Event: -1, Addr: addr, Bytes: e.Bytes + 512, Kind: "large"})
		case e.Kind == timeline.Alloc && allocs < 1000:
			x.Segments = append(x.Segments, TraceSegment{Event: next, Addr: addr, Bytes: e.Bytes + 512, Kind: "large",
				Stream: 7})
			x.Number = append(x.Number, int32(next+1))
			next += 2
		case e.Kind == timeline.Alloc:
			x.Number = append(x.Number, int32(next))
			next++
		case e.Kind == timeline.Free:
			x.Number = append(x.Number, int32(next))
			next += 2
		default:
			x.Number = append(x.Number, int32(next))
		}
		if e.Kind == timeline.Alloc {
			x.Blocks = append(x.Blocks, TraceBlock{Addr: addr, Bytes: e.Bytes, Stack: 0, Stream: 7})
			addr += e.Bytes + 512
			allocs++
		}
	}
	x.Marks = []Mark{{Event: next, Text: "Out of memory at event N"}}
	x.Events = next + 1
	return x
}

// The page counts events as the recording does, shows whole stacks and failures,
// gives the last event a width, and lays out the allocator at any event.
func TestTrace(t *testing.T) {
	tl := steps(6, 1, plain)
	p := samplePage(tl)
	p.Runs[0].Trace = recorded(tl, 2)
	p.Runs[0].Levels = []Level{{-2, 5 << 20}, {0, 9 << 20}, {30, 90 << 20}}
	b := open(t, p, 1280, 900)
	text := func(id string) string {
		return eval[string](t, b, `document.getElementById("`+id+`").textContent`)
	}
	press := func(key string) string {
		eval[bool](t, b, `document.getElementById("plot").dispatchEvent(new KeyboardEvent("keydown", {key: "`+key+
			`", bubbles: true, cancelable: true})); true`)
		eval[bool](t, b, `new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))`,
			chromedp.EvalAwaitPromise)
		return text("status")
	}
	last := p.Runs[0].Trace.Events - 1
	for _, c := range [][2]string{
		{"Home", "before the recording, load, 1.00 MiB asked for and live, 5.00 MiB reserved"},
		{"End", fmt.Sprintf("event %d, step 1 optimizer", last)},
		{"Escape", fmt.Sprintf("The whole run: %d events.", last+1)},
	} {
		if got := press(c[0]); !strings.Contains(got, c[1]) {
			t.Errorf("%s says %q, wanted %q", c[0], got, c[1])
		}
	}
	// The allocator at the end: 6 parameters are left, and every segment still there, with 512 bytes free and what was
	// freed.
	press("End")
	if got := text("h-segments"); got != fmt.Sprintf("The allocator's segments at event %d", last) {
		t.Errorf("segments of %q", got)
	}
	rows := eval[string](t, b, `[...document.querySelectorAll("#free tbody tr")].map(r => [...r.cells].map(c => `+
		`c.textContent).join(", ")).join("; ")`)
	if want := "stream 0x7, "; !strings.HasPrefix(rows, want) ||
		!strings.Contains(rows, "the default stream, 1.00 KiB, 2, 512 B") {
		t.Errorf("free: %q", rows)
	}
	// At the peak more is in use, less is free.
	press("p")
	if got := text("h-segments"); !strings.HasPrefix(got, "The allocator's segments at event ") ||
		strings.HasSuffix(got, fmt.Sprint(last)) {
		t.Errorf("segments of %q", got)
	}
	if more := eval[string](t, b,
		`[...document.querySelectorAll("#free tbody tr")].map(r => [...r.cells].map(c => `+
			`c.textContent).join(", ")).join("; ")`); more == rows {
		t.Errorf("free space at the peak is that of the end: %q", more)
	}
	// A whole stack on hover.
	b.do(t, chromedp.MouseEvent("mouseMoved", 700, eval[float64](t, b,
		`document.querySelector(".u-over").getBoundingClientRect().bottom - 4`)))
	if tip := text("tip"); !strings.Contains(tip, "asked for, ") ||
		!strings.Contains(tip, "u/net.py:7:forwardu/train.py:3:<module>") {
		t.Errorf("tip %q", tip)
	}
	// The failure can be gone to, and has a line in the picture.
	b.goTo(t, "Out of memory at event ")
	if got := text("status"); got != "Out of memory at event N" {
		t.Errorf("the failure says %q", got)
	}
	red := eval[int](t, b, `(() => { const c = document.querySelector("#plot canvas"), d = `+
		`c.getContext("2d").getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 0; i < d.length; i += 4) `+
		`if (d[i] > 170 && d[i + 1] < 60 && d[i + 2] < 60 && d[i + 3] > 0) n++; return n })()`)
	if red < 300 {
		t.Errorf("%d red pixels mark the failure", red)
	}
	// The flame graph has boxes, and says what they are.
	b.do(t, chromedp.Evaluate[chromedp.Void](`(() => { const f = document.getElementById("flame"), r = `+
		`f.getBoundingClientRect(); f.dispatchEvent(new MouseEvent("mousemove", {clientX: r.left + 40, `+
		`clientY: r.top + 30})) })()`))
	if got := text("call"); !strings.HasPrefix(got, "u/train.py:3:<module>: ") ||
		!strings.Contains(got, "100.0 % of what is live") {
		t.Errorf("the flame graph says %q", got)
	}
	// Segments are drawn as allocations are: what is reserved adds up.
	press("End")
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.getElementById("bands").click()`))
	var reserved int64
	for _, g := range p.Runs[0].Trace.Segments {
		reserved += g.Bytes
	}
	if got := text("h-moment"); !strings.Contains(got, report.Size(reserved)) {
		t.Errorf("the segments at the end: %q, wanted %s", got, report.Size(reserved))
	}
	if got := eval[string](t, b, `[...document.querySelectorAll("#legend button")].map(x => `+
		`x.textContent).join()`); got != "large" {
		t.Errorf("the legend of segments says %q", got)
	}
	b.shot(t, "segments")
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.getElementById("bands").click()`))
	b.shot(t, "trace")
	b.quiet(t)
}

// The last event is as wide as the others: a run that ends at its peak shows it.
func TestLastEvent(t *testing.T) {
	l := new(timeline.Log)
	l.Mark(1, timeline.Forward)
	for range 3 {
		l.Alloc(timeline.Request{Bytes: 100 << 20, Layer: timeline.NoLayer, Category: timeline.Activation}, 0)
	}
	b := open(t, samplePage(l), 1280, 900)
	got := eval[string](t, b, `(() => { const u = document.querySelector(".u-over").getBoundingClientRect(); return `+
		`String(u.width) })()`)
	b.do(t, chromedp.MouseEvent("mouseMoved", 1280-60, eval[float64](t, b,
		`document.querySelector(".u-over").getBoundingClientRect().bottom - 4`)))
	if tip := eval[string](t, b, `document.getElementById("tip").textContent`); !strings.Contains(tip,
		"event 2, step 1 forward, 300.00 MiB live") {
		t.Errorf("at the right end of %s pixels: %q", got, tip)
	}
	b.quiet(t)
}
