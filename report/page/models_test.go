package page

import (
	"bytes"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/test/must"
)

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
		requested, _ := sim.Timeline().Peak()
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
