package estimate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// compiledGraphs are the measured models that are not built in.
const compiledGraphs = "testdata/beyond"

// TestCompiled holds the range that a compiled step is said to take against measured ones: nine in ten lie within it,
// and on average it is no wider than a quarter of what was measured. The limits on the prediction are what was
// reached, rounded up. docs/ACCURACY.md has each.
func TestCompiled(t *testing.T) {
	var all []outcome
	var w strings.Builder
	fmt.Fprint(&w, "\n| step | allocated: predicted | eager mode | reserved: predicted | in its range |\n"+
		"|---|---:|---:|---:|---|\n")
	inside, width := 0, 0.0
	for _, file := range []string{"beyond", "compile", "compiled"} {
		for _, c := range readBeyond(t, "testdata/beyond/"+file+".json.gz") {
			if c.Compile == nil || c.Steps == nil || c.Mode == "infer" {
				continue
			}
			c.Mode, c.Opt = "train", "adamw"
			if file == "compile" {
				if c.DType = "fp32"; c.AMP {
					c.DType = "amp-bf16"
				}
			}
			dir, form := "", formOf(c.Model)
			if slices.Contains([]string{
				"convnext_small", "efficientnet_b2", "regnet_y_3_2gf", "resnet101", "swin_s", "uneven", "vit_b_32",
			}, c.Model) {
				dir, form = compiledGraphs, "ts-train"
			}
			bound, err := Bind(openGraph(t, dir, c.Model, form), Options{Batch: c.Batch})
			if err != nil {
				t.Fatal(err)
			}
			s := c.step()
			s.Compile = true
			sim, err := bound.Simulate(s)
			if err != nil {
				t.Fatal(err)
			}
			k, r := sim.Peak, sim.Compiled
			o := outcome{c: c.measuredCase, alloc: rel(k.Allocated, c.PeakAlloc), reserved: rel(k.Reserved, c.PeakReserved)}
			all = append(all, o)
			within := r.Least <= c.PeakAlloc && c.PeakAlloc <= r.Most
			if within {
				inside++
			}
			width += float64(r.Most-r.Least) / float64(c.PeakAlloc)
			fmt.Fprintf(&w, "| %s %s b%d | %+.2f %% | %+.2f %% | %+.2f %% | %s |\n", c.Model, c.DType, c.Batch, 100*o.alloc,
				100*rel(r.Eager, c.PeakAlloc), 100*o.reserved, map[bool]string{true: "yes", false: "no"}[within])
			if k.UpperBound < c.SMI<<20 {
				t.Errorf("%s: at most %d on the device, measured %d MiB", c.name(), k.UpperBound, c.SMI)
			}
		}
	}
	width /= float64(len(all))
	a, r := spreadOf(all, allocated), spreadOf(all, reserved)
	fmt.Fprintf(&w, "\n%d of %d are in their ranges, which are %.1f %% wide on average.\nAllocated: %v; reserved: %v.\n",
		inside, len(all), 100*width, a, r)
	holdPart(t, "compiled", w.String())
	if len(all) != 42 || 10*inside < 9*len(all) || width > 0.25 {
		t.Errorf("%d of %d in their ranges, which are %.1f %% wide", inside, len(all), 100*width)
	}
	want := [2]spread{{1, 5, 12}, {5, 12, 42}}
	if a.median > want[0].median || a.p90 > want[0].p90 || a.worst > want[0].worst ||
		r.median > want[1].median || r.p90 > want[1].p90 || r.worst > want[1].worst {
		t.Errorf("want at most allocated %v, reserved %v", want[0], want[1])
	}
}
