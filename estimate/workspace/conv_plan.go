package workspace

import (
	"encoding/binary"
	"slices"

	"github.com/memestimate/memestimate/estimate/gpu"
)

// convOthers is for how many other choices of engines a ConvPlan says what the workspace would be.
const convOthers = 4

// A ConvPlan is what is known of the convolutions of one shape and pass. Sizes are bytes.
type ConvPlan struct {
	Bytes  int64             // the workspace
	Others [convOthers]int64 // what it would be, had cuDNN chosen as one of the forest's trees that doubt does
	Most   int64             // the largest that a tree names and is believed; docs/workspaces.md: how often it is exceeded
}

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
	for k := range p.Others {
		doubt := (3*index + k) % convDoubts
		p.Others[k] = w.bytes(f.engines[leaves[n+doubt]])
		if p.Others[k] > p.Most { // which is not believed
			p.Others[k] = p.Bytes
		}
	}
	return p
}

// answered takes cuDNN's own answer for what runs. It is given without a GPU; what engines take that split a sum as
// often as fits the multiprocessors is added to it (cudnn_answers.py), but not in older recordings, nor for groups.
// So of the trees' other choices those stay that are as much, or more by such sums, and the most is what the trees name
// where that is more. Of 12,811 passes that no tree had seen the answer was within 10 % for 97.5 %, where the trees are
// for 79.7 %; docs/workspaces.md.
func (p *ConvPlan) answered(bytes int64, d gpu.Device) {
	sums := saturate(2, int64(max(d.Multiprocessors, 1)), tileBytes) + convNotes
	p.Bytes = bytes
	for k, other := range p.Others {
		if other < bytes-convNotes || other > bytes+sums {
			p.Others[k] = bytes
		}
	}
	p.Most = max(p.Most, bytes)
}

// bytes is the workspace that a forest says a pass takes, by what its trees name.
func (f *convForest) bytes(s *ConvShape, pass ConvPass, w *convWork, leaves []uint8) int64 {
	if e, ok := f.listed(s, pass); ok {
		return w.bytes(e)
	}
	return w.majority(f, leaves)
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
