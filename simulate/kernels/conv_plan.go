package kernels

import (
	"bytes"
	"encoding/binary"
	"fmt"
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
	unoffered int64        // of the engines that trees name and that cuDNN does not without a GPU: the most named; 0: none
	believers int          // how many trees name one of those
	fourier   int64        // what a Fourier transform would take; 0 where there is none
	wide      int64        // the same of a long filter: see convWork.wide
	widens    bool         // that is what runs
	alike     alike
	transform bool // the engine runs that trees name and that cuDNN did not
}

// alike is what passes have in common of which cuDNN, where it transforms one, may transform all.
type alike struct {
	pass   ConvPass
	elem   int64
	filter int64
}

// fewestBelievers is how many of a forest's 16 trees name an engine that cuDNN does not offer without a GPU for it to
// be taken rather than the answer. Of 34 such passes that no tree had seen 24 took what that engine does, and 6 what
// cuDNN had answered; where fewer trees named one, 46 and 210 of 270 (testdata/choices.bin.gz).
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
	most := 0 // trees that name one and the same
	for _, leaf := range leaves[:n] {
		e := f.engines[leaf]
		if !e.isUnoffered() {
			continue
		}
		p.believers++
		named, takes := bytes.Count(leaves[:n], []byte{leaf}), w.bytes(e)
		if named > most || named == most && takes > p.unoffered {
			most, p.unoffered = named, takes
		}
	}
	p.alike = alike{pass, w.elem, w.filter}
	if f := w.bytes(convEngine{extra: extraFFT}); f <= saturate(16, min(w.in+w.out+w.weight, convMaximum)) {
		p.fourier = f // as large as is believed of several trees
	}
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

// answered takes cuDNN's own answer for what runs. It is given without a GPU; what engines take that split a sum as
// often as fits the multiprocessors is added to it (cudnn_answers.py), but not in older recordings, nor for groups.
// So of the trees' other choices those stay that are as much, or more by such sums, and the most is what the trees name
// where that is more. Of 12,811 passes that no tree had seen the answer was within 10 % for 97.5 %, where the trees are
// for 79.7 %; testdata/README.md.
//
// Engines that transform are not offered without a GPU. Where enough trees name one it is what runs; where any does,
// one of the other choices is that all such passes run one, since what the trees do not know of one they do not of all.
func (p *ConvPlan) answered(bytes int64, d gpu.Device) {
	sums := saturate(2, int64(max(d.Multiprocessors, 1)), tileBytes) + convNotes
	p.Bytes = bytes
	for k, other := range p.Others {
		if other < bytes-convNotes || other > bytes+sums {
			p.Others[k] = bytes
		}
	}
	other := p.unoffered < bytes-convNotes || p.unoffered > bytes+convNotes
	if p.unoffered > 0 && p.unoffered <= p.Most && other {
		p.Others[0] = p.unoffered
		if p.believers >= fewestBelievers {
			p.Bytes, p.Others[0], p.transform = p.unoffered, bytes, true
		}
	}
	p.Most = max(p.Most, bytes)
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
	if list := transformed(plans); list != nil {
		all = append(all, list)
	}
	return all
}

// transformed is the choice in which cuDNN transforms all that is like what it transforms; nil where it does none. Of a
// network whose gradients of 3x3 filters were all Fourier transforms the trees named two of three.
func transformed(plans []ConvPlan) []int64 {
	kinds := map[alike]bool{}
	for i := range plans {
		if plans[i].transform {
			kinds[plans[i].alike] = true
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	list := make([]int64, len(plans))
	for i := range plans {
		list[i] = plans[i].Bytes
		if kinds[plans[i].alike] && list[i] > 0 {
			list[i] = max(list[i], plans[i].fourier)
		}
	}
	return list
}
