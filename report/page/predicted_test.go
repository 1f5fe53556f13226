package page

import (
	"bytes"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
)

// What there was no memory for is not drawn: neither a workspace that is given up nor one that a library searches in.
func TestLeftOut(t *testing.T) {
	const unit = 100 << 20
	for _, plan := range []int32{1, timeline.Searching} {
		l := new(timeline.Log)
		take := func(bytes int64, plan int32) int32 {
			return l.Alloc(timeline.Request{Bytes: bytes, Layer: timeline.NoLayer}, plan)
		}
		take(unit, 0)
		l.Free(take(4*unit, plan), timeline.NoLayer)
		l.Release(timeline.NoLayer)
		take(unit/2, 0)
		for room, want := range map[int64]int32{2 * unit: 2, 6 * unit: 3} {
			r, err := caching.NewReplayer(caching.Config{Limit: room, Room: room}).Finish(l)
			must.OK(t, err)
			run := Predicted("predicted", l.Source(), r, nil)
			if err := run.Timeline.Check(); err != nil || run.Timeline.Blocks != want {
				t.Errorf("plan %d with room for %d: %d blocks, %v, wanted %d", plan, room, run.Timeline.Blocks, err, want)
			}
			if _, err := dataOf(&Page{Runs: []Run{run}}); err != nil {
				t.Errorf("plan %d with room for %d: %v", plan, room, err)
			}
		}
	}
}

// What the page says of modules adds up to what the report says of the model, layers that share a name and parameters
// that no layer uses among them.
func TestModulesAddUp(t *testing.T) {
	r := &estimate.Report{Layers: []module.Layer{
		{Module: "block.conv", Op: "Conv", Nodes: 1, Params: 10, SavedBytes: 100},
		{Module: "block.conv", Op: "Relu", Nodes: 1, SavedBytes: 20},
		{Name: "(not used by any layer)", Nodes: 1, Params: 3, SavedBytes: 1},
		{Name: "(not used by any layer)", Params: 7},
	}}
	var parameters, saved int64
	for _, m := range modules(r) {
		parameters += m.Parameters
		saved += m.Saved
	}
	if parameters != 20 || saved != 121 {
		t.Errorf("%d parameters and %d bytes saved, want 20 and 121", parameters, saved)
	}
	if m := modules(r)["block.conv"]; m.Operator != "several" || m.Parameters != 10 || m.Saved != 120 {
		t.Errorf("the module called twice is %+v", m)
	}
}

// Predicted training steps of real models come up with all their layers, and
// every figure of the page is the estimate's.
func TestModels(t *testing.T) {
	for _, name := range []string{"resnet50", "gpt2"} {
		data, err := models.Open(name)
		must.OK(t, err)
		m, err := onnxload.Read(bytes.NewReader(data), int64(len(data)), onnxload.Options{Path: name})
		must.OK(t, err)
		bound, err := estimate.Bind(m, estimate.Options{Name: name, Batch: 4})
		must.OK(t, err)
		sim, err := bound.Simulate(estimate.Step{Record: true})
		must.OK(t, err)
		run := Predicted("predicted", sim.Run.Log.Source(), sim.Replay, nil)
		requested, _ := sim.Run.Log.Source().Peak()
		b := open(t, &Page{Title: name, Facts: []Fact{{Name: "Peak allocated", Value: report.Size(run.Allocated)}},
			Runs: []Run{run}},
			1400, 1000)
		if got := eval[string](t, b, `document.getElementById("h-moment").textContent`); !bytes.Contains([]byte(got),
			[]byte(report.Size(requested)+" live, ")) {
			t.Errorf("%s: %q, wanted %s", name, got, report.Size(requested))
		}
		want := len(layerSums(run.Timeline))
		if n := eval[int](t, b, `document.querySelector("table.big tbody").rows.length`); n != min(want, maxRows) || n < 50 {
			t.Errorf("%s: %d layers in the table, wanted %d", name, n, want)
		}
		box := eval[[]float64](t, b,
			`(() => { const r = document.querySelector(".u-over").getBoundingClientRect(); return [r.left + r.width / `+
				`2, r.bottom - 3] })()`)
		b.do(t, chromedp.MouseEvent("mouseMoved", box[0], box[1]))
		if eval[bool](t, b, `document.getElementById("tip").hidden`) {
			t.Errorf("%s: nothing under the pointer", name)
		}
		b.view(t, name)
		b.quiet(t)
	}
}
