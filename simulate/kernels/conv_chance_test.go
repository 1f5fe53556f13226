package kernels

import (
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
)

// Of passes that no tree had seen as many take a larger workspace as their chances say: with cuDNN's answers, and
// without, where the trees alone choose. The more likely it is said to be the more often it happens.
func TestConvChances(t *testing.T) {
	choices, _ := readConvs(t, "testdata/choices.bin.gz")
	answers, _ := readConvs(t, "testdata/answers.bin.gz")
	for _, answered := range []bool{true, false} {
		type count struct {
			n, took int
			chance  float64
		}
		var rare, likely count
		for i := range choices {
			for pass, want := range choices[i].passes {
				answer := answers[i].passes[pass]
				if want < 0 || answer < 0 {
					continue
				}
				p := answers[i].shape.Plan(ConvPass(pass), i, gpu.Default())
				if answered {
					p.answered(answer, gpu.Default())
					p.weigh(askedChance)
				} else {
					p.weigh(1)
				}
				for k, c := range p.Larger {
					if k > 0 && (c.Bytes <= p.Larger[k-1].Bytes || c.Chance > p.Larger[k-1].Chance) {
						t.Fatalf("%v: not in order: %v", answers[i].shape, p.Larger)
					}
					of := &rare
					if c.Chance > 0.05 {
						of = &likely
					}
					of.n++
					of.chance += c.Chance
					of.took += b2i(want > p.Bytes+p.Bytes/100+8192 && want >= c.Bytes-c.Bytes/8)
				}
			}
		}
		share := func(c count) float64 { return float64(c.took) / float64(c.n) }
		t.Logf("answered %v: %d rare ones, %.1f %% took as much, said %.1f %%; %d likely ones, %.1f %%, said %.1f %%", answered,
			rare.n, 100*share(rare), 100*rare.chance/float64(rare.n), likely.n, 100*share(likely),
			100*likely.chance/float64(likely.n))
		for _, c := range []count{rare, likely} {
			if said := c.chance / float64(c.n); c.n < 400 || share(c) < said/2 || share(c) > 2*said {
				t.Errorf("answered %v: %.3f took as much of %d, said %.3f", answered, share(c), c.n, said)
			}
		}
		if share(likely) < 2*share(rare) {
			t.Errorf("answered %v: %.3f of the likely ones, %.3f of the rare ones", answered, share(likely), share(rare))
		}
	}
}
