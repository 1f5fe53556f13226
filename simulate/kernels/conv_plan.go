package kernels

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/memestimate/memestimate/simulate/gpu"
)

// convOthers is for how many other choices of engines a ConvPlan says what the workspace would be.
const convOthers = 4

// A ConvPlan is what is known of the convolutions of one shape and pass. Sizes are bytes.
type ConvPlan struct {
	Bytes  int64             // the workspace
	Others [convOthers]int64 // what it would be, had cuDNN chosen as one of the forest's trees that doubt does
	Most   int64             // the largest that a tree names and is believed; testdata/README.md: how often it is exceeded
	Of     string            // a recorded call's convolution and pass, where it may take more
	Larger []ConvChoice      // of a recorded call, ascending: what it may take instead, and how likely that is

	named     []ConvChoice // what trees name and is believed, each with the share of the trees that name it
	unsure    []ConvChoice // workspaces that no tree names, with their chances
	unoffered int64        // what the likeliest of the engines takes that cuDNN does not offer without a GPU
	runs      float64      // how likely that runs; 0 where there is none
	wide      int64        // what a Fourier transform of a long filter takes: see convWork.wide
	widens    bool         // that is what runs
}

// fewestBelievers is how many of a forest's 16 trees name an engine that cuDNN does not offer without a GPU for it to
// be taken rather than the answer, where convOdds has no forest: of 16 bits, and in channels-last order. Of 34 such
// passes that no tree had seen 24 took what that engine does, and 6 what cuDNN had answered (testdata/choices.bin.gz).
const fewestBelievers = 5

// Plan works out what a pass takes: how much an engine takes is physics (conv_engines.go), which engine runs is
// cuDNN's own heuristic, which NVIDIA trained and does not publish; a forest grown on measured convolutions stands
// for it (conv_forest.go). Plans for no workspace, and for what is no convolution, are zero. The index decides which
// doubting trees the other choices are taken from: each plan's from others, so that no choice is one tree's alone,
// and as often as the trees name them.
func (s ConvShape) Plan(pass ConvPass, index int, d gpu.Device) (p ConvPlan) {
	w, ok := s.work(pass, d)
	if !ok || w.native() {
		return p
	}
	f := convForests[w.convKind()]()
	figures := w.features()
	leaves, n := f.leaves(&figures)
	if n == 0 {
		return p
	}
	p.Bytes = f.bytes(&s, pass, &w, leaves[:n+convDoubts])
	p.Most = p.Bytes
	bound := w
	if w.asIs { // the bound has room for copies on every device
		bound.asIs = false
		p.Most = bound.majority(&f, leaves[:n+convDoubts])
	}
	p.Most = max(p.Most, bound.largest(&f, leaves[:n+convDoubts]))
	p.apart(&w, &f, &figures, leaves[:n])
	for k := range p.Others {
		doubt := (3*index + k) % convDoubts
		p.Others[k] = w.bytes(f.engines[leaves[n+doubt]])
		if p.Others[k] > p.Most { // which is not believed
			p.Others[k] = p.Bytes
		}
	}
	p.wide, p.widens = w.wide()
	p.widen()
	p.name(&f, &bound, leaves[:n+convDoubts])
	return p
}

// widen takes the transforms of a long filter for what runs, or for one of the other choices.
func (p *ConvPlan) widen() {
	if p.wide == 0 {
		return
	}
	p.Most = max(p.Most, p.wide)
	p.Others[0] = p.wide
	if p.widens {
		p.Bytes, p.Others[0] = p.wide, p.Bytes
	}
}

// apart finds the likeliest of the engines that cuDNN does not offer without a GPU: by convOdds, or where that has no
// forest by how many trees name one.
func (p *ConvPlan) apart(w *convWork, f *convForest, figures *convFeatures, leaves []uint8) {
	known := false
	for _, e := range w.unoffered() {
		odds, ok := e.odds(figures)
		if known = known || ok; ok && chance(odds) > p.runs {
			p.unoffered, p.runs = e.bytes, chance(odds)
		}
	}
	if known {
		if !w.isProduct() && p.runs > doubtful {
			p.Most = max(p.Most, p.unoffered)
		}
		return
	}
	most, believers := 0, 0 // trees that name one and the same, and any
	for _, leaf := range leaves {
		if e := f.engines[leaf]; e.isUnoffered() {
			believers++
			named, takes := bytes.Count(leaves, []byte{leaf}), w.bytes(e)
			if named > most || named == most && takes > p.unoffered {
				most, p.unoffered = named, takes
			}
		}
	}
	switch {
	case p.unoffered > p.Most:
		p.unoffered = 0
	case believers >= fewestBelievers:
		p.runs = believed
	case believers > 0:
		p.runs = min(unofferedChance*float64(believers)/float64(len(leaves)), likely)
	}
}

// chance is the probability that has these odds, of which odds is the natural logarithm.
func chance(odds float64) float64 { return 1 / (1 + math.Exp(-odds)) }

// answered takes cuDNN's own answer for what runs. It is given without a GPU; what engines take that split a sum as
// often as fits the multiprocessors is added to it (cudnn_answers.py), but not in older recordings, nor for groups.
// So of the trees' other choices those stay that are as much, or more by such sums, and the most is what the trees name
// where that is more. testdata/README.md says how often the answer is what a pass takes.
//
// Some engines are not offered without a GPU. Where one is likelier than not it is what runs. What does not run is one
// of the other choices, of which those of all passes are replayed at once, only where it may well have.
func (p *ConvPlan) answered(bytes int64, d gpu.Device) {
	sums := saturate(2, int64(max(d.Multiprocessors, 1)), tileBytes) + convNotes
	p.Bytes = bytes
	for k, other := range p.Others {
		if other < bytes-convNotes || other > bytes+sums {
			p.Others[k] = bytes
		}
	}
	p.named = slices.DeleteFunc(p.named, func(c ConvChoice) bool { return !c.asked }) // see runs
	if p.runs > doubtful {
		other, chance := p.unoffered, p.runs
		if p.runs > likely {
			p.Bytes, other, chance = p.unoffered, bytes, 1-p.runs
		}
		if chance > doubtful {
			p.Others[0] = other
		}
		p.Most = max(p.Most, other)
		p.unsure = append(p.unsure, ConvChoice{Bytes: other, Chance: chance})
	}
	p.Most = max(p.Most, p.Bytes)
	p.widen()
}

// bytes is the workspace that a forest says a pass takes, by what its trees name.
func (f *convForest) bytes(s *ConvShape, pass ConvPass, w *convWork, leaves []uint8) int64 {
	if e, ok := f.listed(s, pass); ok {
		return w.bytes(e)
	}
	return w.majority(f, leaves)
}

// name says which convolution it is, and which pass.
func (s ConvShape) name(pass ConvPass) string {
	of := [convPasses]string{"", "the gradient of x of ", "the gradient of w of "}[pass]
	return fmt.Sprintf("%sa convolution of %v by %v", of, s.X, s.W)
}

// AppendKey appends what tells a shape and pass from all others.
func (s ConvShape) AppendKey(key []byte, pass ConvPass) []byte {
	key = append(key, byte(pass), flags(s.ChannelsLast, s.Transposed, s.Float16))
	key = binary.AppendVarint(key, s.Elem)
	key = binary.AppendVarint(key, s.Groups)
	for _, list := range [...][]int64{s.X, s.W, s.Y, s.Stride, s.Dilation} {
		key = binary.AppendVarint(key, int64(len(list)))
		for _, n := range list {
			key = binary.AppendVarint(key, n)
		}
	}
	return key
}

func flags(set ...bool) (f byte) {
	for i, v := range set {
		if v {
			f |= 1 << i
		}
	}
	return f
}

// OtherChoices lists the workspaces of a run's convolutions, by plan, less 1, for each other choice of cuDNN's engines
// that is not the same as what the plans take, nor as one before it: each is a replay of the run. A convolution that
// takes none has none in any.
func OtherChoices(plans []ConvPlan) (all [][]int64) {
	for other := range convOthers {
		list, same := make([]int64, len(plans)), true
		for i := range plans {
			p := &plans[i]
			if p.Bytes > 0 {
				list[i] = p.Others[other]
			}
			same = same && list[i] == p.Bytes
		}
		if !same && !slices.ContainsFunc(all, func(l []int64) bool { return slices.Equal(l, list) }) {
			all = append(all, list)
		}
	}
	return all
}
