package kernels

import (
	"cmp"
	"slices"
)

// A ConvChoice is a workspace that a pass may take, in bytes, and how likely it takes as much or more.
type ConvChoice struct {
	Bytes  int64
	Chance float64
	asked  bool // cuDNN would have named the engine, had it run: see convEngine.isUnoffered
}

// How likely a workspace is that trees name and that is not the one taken, by the share of the trees that name as much
// or more: of passes that no tree had seen, and of those that were measured, one in ten of what the share says where
// cuDNN answered or a GPU was asked, and twice the share of engines that cuDNN does not name without a GPU.
// TestConvChances holds both.
const (
	askedChance     = 0.12
	unofferedChance = 2.2
	cuBLASChance    = 0.6 // of products of matrices, where cuDNN was not asked about them: some were measured
)

// An engine that cuDNN does not offer without a GPU is taken where it is likely, and left out of account where it is
// not even doubtful: TestConvOdds holds how few passes run one there.
const (
	likely   = 0.5
	doubtful = 0.2
	believed = 24. / 34 // how often one runs that fewestBelievers trees name
)

// Chances of what no tree names: of x and y in 4 bytes (convWork.widened), of the transform of a long filter where the
// rule says that there is none, or of none where it says that there is one (docs/workspaces.md), of what a search
// finds.
const (
	widenedChance = 134. / 890
	wideChance    = 0.057
	searchChance  = 0.5
)

// name keeps what trees name. On a chip whose kernels work in NCHW w is how the others would: see convWork.asIs.
func (p *ConvPlan) name(f *convForest, w *convWork, leaves []uint8) {
	share := 1 / float64(len(leaves))
next:
	for _, leaf := range leaves {
		e := f.engines[leaf]
		c := ConvChoice{w.bytes(e), share, !e.isUnoffered()}
		if c.Bytes > p.Most { // which is not believed
			continue
		}
		for i := range p.named {
			if o := &p.named[i]; o.Bytes == c.Bytes && o.asked == c.asked {
				o.Chance += share
				continue next
			}
		}
		p.named = append(p.named, c)
	}
	if other := w.widened(); other > 0 {
		p.unsure = append(p.unsure, ConvChoice{Bytes: other, Chance: widenedChance})
	}
	if p.wide > 0 {
		p.unsure = append(p.unsure, ConvChoice{Bytes: max(p.wide, p.Others[0]), Chance: wideChance})
	}
}

// weigh sets what a pass may take that is more than it is said to: sizes that differ by an eighth at most count as the
// larger one. surely is how likely what trees name is, by their share, where cuDNN would have named it.
func (p *ConvPlan) weigh(surely float64) {
	all := slices.Clone(p.unsure)
	for _, c := range p.named {
		if c.asked {
			c.Chance *= surely
		} else {
			c.Chance *= unofferedChance
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b ConvChoice) int { return cmp.Compare(b.Bytes, a.Bytes) })
	chance := 0.0
	for _, c := range all {
		if c.Bytes <= p.Bytes+p.Bytes/100+8192 {
			break
		}
		chance = min(chance+c.Chance, 1)
		if n := len(p.Larger); n > 0 && c.Bytes >= p.Larger[n-1].Bytes/8*7 {
			p.Larger[n-1].Chance = chance
			continue
		}
		p.Larger = append(p.Larger, ConvChoice{Bytes: c.Bytes, Chance: chance})
	}
	slices.Reverse(p.Larger)
}

// byCuBLAS reports whether the pass is a product of matrices, of which cuDNN is not asked: it leaves it to cuBLAS.
func (s *ConvShape) byCuBLAS() bool {
	more := func(n int64) bool { return n != 1 }
	return s.Groups == 1 && !slices.ContainsFunc(s.W[2:], more) && !slices.ContainsFunc(s.Stride, more) &&
		slices.Equal(s.X[2:], s.Y[2:])
}
