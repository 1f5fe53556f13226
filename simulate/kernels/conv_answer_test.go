package kernels

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/testfile"
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
	if n < 12000 || percent(near) < 97.6 || percent(exact) < 96.2 || percent(above) > 0.53 || near <= trees {
		t.Error("not as testdata/README.md says")
	}
}

// Gradients of w of a network of small images were Fourier transforms on an H200, which cuDNN does not offer without a
// GPU.
func TestTransformsAreNotOffered(t *testing.T) {
	for _, c := range []struct{ channels, side, answer, want int64 }{
		{64, 8, 21184528, 159383552}, {32, 16, 34439312, 301989888}, {16, 32, 68643467, 587202560},
	} {
		x, w := []int64{512, c.channels, c.side, c.side}, []int64{c.channels, c.channels, 3, 3}
		s := ConvShape{Elem: 4, X: x, W: w, Y: x, Stride: []int64{1, 1}, Dilation: []int64{1, 1}, Groups: 1}
		p := s.Plan(ConvBackwardWeight, 0, gpu.Default())
		p.answered(c.answer, gpu.Default())
		if p.Bytes != c.want || p.Most < c.want {
			t.Errorf("%d channels: %d bytes, at most %d, took %d", c.channels, p.Bytes, p.Most, c.want)
		}
	}
}

// Trees may name different transforms: of 16 one names Fourier's here, of 39,845,888 bytes, and the others Winograd's,
// which is what ran on an H100.
func TestTransformOfMostTrees(t *testing.T) {
	x := []int64{128, 64, 8, 8}
	one := []int64{1, 1}
	s := ConvShape{Elem: 4, X: x, W: []int64{64, 64, 3, 3}, Y: x, Stride: one, Dilation: one, Groups: 1}
	p := s.Plan(ConvBackwardWeight, 0, gpu.Default())
	p.answered(5521552, gpu.Default())
	if p.Bytes != 10027008 {
		t.Errorf("%d bytes, want 10027008", p.Bytes)
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

// The gradient of a gradient is taken by filters as large as images. cuDNN's heuristic on an H100 transformed those of
// 128 x 128, of which without a GPU it names a copy; padded ones may be, those up to 32 x 32 are not.
func TestLongFilters(t *testing.T) {
	for _, c := range []struct{ side, pad, k, answer, want, other int64 }{
		{128, 0, 1024, 356515856, 9059696640, 356515856},
		{128, 0, 512, 188743696, 4529848320, 188743696},
		{128, 1, 128, 100958224, 100958224, 4370464768},
		{32, 0, 1024, 22282256, 22282256, 0}, // another choice is that of any tree, and no transform
	} {
		y := 2*c.pad + 1
		s := ConvShape{Elem: 4, X: []int64{64, 5, c.side, c.side}, W: []int64{c.k, 5, c.side, c.side},
			Y: []int64{64, c.k, y, y}, Stride: []int64{1, 1}, Dilation: []int64{1, 1}, Groups: 1}
		p := s.Plan(ConvForward, 0, gpu.Default())
		if c.want > c.answer && p.Bytes != c.want {
			t.Errorf("%d x %d, without an answer: %d bytes, want %d", c.side, c.side, p.Bytes, c.want)
		}
		p.answered(c.answer, gpu.Default())
		if other := p.Others[0]; c.other == 0 && p.wide != 0 ||
			p.Bytes != c.want || c.other != 0 && other != c.other || p.Most < max(c.want, c.other) {
			t.Errorf("%d x %d: %d bytes, or %d, at most %d; want %d or %d",
				c.side, c.side, p.Bytes, other, p.Most, c.want, c.other)
		}
		half := s
		half.Elem = 2
		if p := half.Plan(ConvForward, 0, gpu.Default()); p.wide != 0 {
			t.Errorf("%d x %d in 2 bytes: %d bytes", c.side, c.side, p.wide)
		}
	}
}

// What cuDNN named first on a GPU for filters as long as their images: a transform (engine 3) where Plan says so, in 99
// of 100.
func TestLongFiltersAsked(t *testing.T) {
	rows := bytes.Split(bytes.TrimSpace(testfile.Unzipped(t, "testdata/long_filters.csv.gz")), []byte("\n"))[1:]
	right, wrong, asked := 0, 0, 0
	for _, row := range rows {
		var side, pad, c, n, k, engine, size int64
		if _, err := fmt.Sscanf(string(row), "%d,%d,%d,%d,%d,%d,%d", &side, &pad, &c, &n, &k, &engine, &size); err != nil {
			t.Fatal(err)
		}
		if side <= longestFilter {
			continue
		}
		y := 2*pad + 1
		s := ConvShape{Elem: 4, X: []int64{n, c, side, side}, W: []int64{k, c, side, side}, Y: []int64{n, k, y, y},
			Stride: []int64{1, 1}, Dilation: []int64{1, 1}, Groups: 1}
		p := s.Plan(ConvForward, 0, gpu.Default())
		asked++
		switch {
		case p.widens == (engine == 3):
			right++
		case p.widens:
			wrong++
		}
		if engine == 3 && p.wide != size && max(p.wide-size, size-p.wide) > size/100 {
			t.Errorf("%d x %d of %d channels, %d images: %d bytes, cuDNN takes %d", side, side, c, n, p.wide, size)
		}
	}
	t.Logf("of %d, %d as asked, %d taken for transforms that are none", asked, right, wrong)
	if asked < 11_000 || right*100 < asked*99 || wrong*100 > asked {
		t.Errorf("of %d, %d as asked, %d taken for transforms that are none", asked, right, wrong)
	}
}

// What trees say of kinds that few measured convolutions are, and that no tree has seen: grouped ones, 1x1 filters,
// patches, volumes, 16 bits. testdata/README.md says what cuDNN answers about them without a GPU.
func TestConvJudges(t *testing.T) {
	convs, _ := readConvs(t, convJudges)
	type tally struct{ n, near, exceeded int }
	all := &tally{}
	kinds := map[string]*tally{"all": all}
	for i := range convs {
		c := &convs[i]
		of := kinds[c.model]
		if of == nil {
			of = &tally{}
			kinds[c.model] = of
		}
		for pass, want := range c.passes {
			if want < 0 {
				continue
			}
			p := c.shape.Plan(ConvPass(pass), i, gpu.Default())
			for _, a := range []*tally{all, of} {
				a.n++
				a.near += b2i(nearConv(p.Bytes, want, 0.1))
				a.exceeded += b2i(want > p.Most+p.Most/100+8192)
			}
		}
	}
	for kind, a := range kinds {
		near, exceeded := percent(a.near, a.n), percent(a.exceeded, a.n)
		t.Logf("%-10s %6d passes: within 10 %% %.1f %%, the most exceeded %.2f %%", kind, a.n, near, exceeded)
		if near < 75 || exceeded > 2.55 {
			t.Errorf("%s: not as testdata/README.md says", kind)
		}
	}
	if percent(all.near, all.n) < 85.7 || percent(all.exceeded, all.n) > 1.41 {
		t.Error("all: not as testdata/README.md says")
	}
}
