package kernels

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
)

// TestLoneTreeIsNotBelieved holds the bound of a convolution of many groups, as vmap makes them of a batch: a tree that
// never saw one stands for an engine that would keep 18 GB of partial results.
func TestLoneTreeIsNotBelieved(t *testing.T) {
	s := ConvShape{Elem: 4, X: []int64{1, 8192, 16, 16}, W: []int64{16384, 32, 3, 3}, Y: []int64{1, 16384, 16, 16},
		Stride: []int64{1, 1}, Dilation: []int64{1, 1}, Groups: 256}
	p := s.Plan(ConvBackwardWeight, 0, gpu.Device{Multiprocessors: 132})
	if p.Bytes == 0 || p.Most < p.Bytes || p.Most > 1<<30 {
		t.Errorf("%d bytes, at most %d: wanted at most 1 GiB", p.Bytes, p.Most)
	}
}

// TestMeasuredAreBelieved holds that limit to what was measured: where a tree names the engine that ran, the bound has
// room for it, but for one: a Fourier transform of 16 bits, of which few were measured, that one tree of 24 names.
func TestMeasuredAreBelieved(t *testing.T) {
	convs, _ := readConvs(t, convData)
	device := gpu.Device{Multiprocessors: 132}
	seen, missed := 0, 0
	for _, c := range convs {
		for pass, took := range c.passes {
			w, ok := c.shape.work(ConvPass(pass), device)
			if took < 16<<20 || !ok || w.native() {
				continue
			}
			f := convForests[w.convKind()]()
			figures := w.features()
			leaves, n := f.leaves(&figures)
			if !slices.ContainsFunc(leaves[:n], func(l uint8) bool { return w.bytes(f.engines[l]) == took }) {
				continue
			}
			seen++
			if most := c.shape.Plan(ConvPass(pass), 0, device).Most; most < took {
				missed++
				t.Logf("%v %v pass %d took %d, and at most %d are believed", c.shape.X, c.shape.W, pass, took, most)
			}
		}
	}
	if missed > 1 {
		t.Errorf("%d of %d are not believed", missed, seen)
	}
	if seen < 1000 {
		t.Errorf("%d passes looked at, wanted 1,000", seen)
	}
}
