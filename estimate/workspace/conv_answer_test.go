package workspace

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/gpu"
)

// What cuDNN answers without a GPU is what its plans take on one, for most passes; trees that have not seen their
// shapes are right less often, and exceeded by more even at the most that they name. scripts/measure/choices.py made
// both files.
func TestAnswers(t *testing.T) {
	choices, _ := readConvs(t, "testdata/choices.bin.gz")
	answers, _ := readConvs(t, "testdata/answers.bin.gz")
	if len(answers) != len(choices) {
		t.Fatalf("%d answers about %d convolutions", len(answers), len(choices))
	}
	n, exact, near, trees, above, treesAbove := 0, 0, 0, 0, 0, 0
	exceeded := func(want, most int64) int { return b2i(want > most+most/100+8192) }
	for i := range choices {
		for pass, want := range choices[i].passes {
			answer := answers[i].passes[pass]
			if want < 0 || answer < 0 {
				continue
			}
			n++
			p := answers[i].shape.Plan(ConvPass(pass), i, gpu.Default())
			trees += b2i(nearConv(p.Bytes, want, 0.1))
			treesAbove += exceeded(want, p.Most)
			p.answered(answer, gpu.Default())
			exact += b2i(nearConv(p.Bytes, want, 0.001))
			near += b2i(nearConv(p.Bytes, want, 0.1))
			above += exceeded(want, p.Most)
			if p.Most < p.Bytes {
				t.Fatalf("%+v: at most %d of %d bytes", answers[i].shape, p.Most, p.Bytes)
			}
		}
	}
	percent := func(k int) float64 { return 100 * float64(k) / float64(n) }
	t.Logf("%d passes: within 0.1 %% %.1f %%, within 10 %% %.1f %%, of the trees %.1f %%; "+
		"the most exceeded %.2f %%, of the trees %.2f %%",
		n, percent(exact), percent(near), percent(trees), percent(above), percent(treesAbove))
	if n < 12000 || percent(near) < 97.4 || percent(exact) < 96 || percent(above) > 0.55 || near <= trees {
		t.Error("not as docs/workspaces.md says")
	}
}

// A convolution takes what cuDNN answered about it, of the same pass, type and layout; others take what trees say.
func TestAnsweredCall(t *testing.T) {
	x, w := of("float32", 32, 64, 56, 56), of("float32", 64, 64, 3, 3)
	one := numbers(1, 1)
	call := &Call{Op: "convolution", Overload: "default", Results: []*Tensor{x},
		Args: append(tensors(x, w, nil), one, one, one, number(0), numbers(0, 0), number(1))}
	s := ConvShape{Elem: 4, X: x.Shape, W: w.Shape, Y: x.Shape, Stride: []int64{1, 1}, Dilation: []int64{1, 1}, Groups: 1}
	last := s
	last.ChannelsLast = true
	const answer = 123456
	taken := func(k *Kernels) (bytes int64) {
		for _, step := range k.Call(call) {
			if step.Plan > 0 {
				bytes = step.Bytes
			}
		}
		return bytes
	}
	plain := taken(NewKernels(gpu.Default()))
	k := NewKernels(gpu.Default())
	k.Answered(&s, ConvForward, answer)
	if got := taken(k); got != answer || got == plain {
		t.Errorf("%d bytes, cuDNN answered %d", got, answer)
	}
	k = NewKernels(gpu.Default())
	k.Answered(&s, ConvBackwardInput, answer)
	k.Answered(&last, ConvForward, answer)
	if got := taken(k); got != plain {
		t.Errorf("%d bytes, want %d: cuDNN was asked about others", got, plain)
	}
}
