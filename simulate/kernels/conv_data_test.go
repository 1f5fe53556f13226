package kernels

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

// This file reads the measured convolutions.

// convData are measured convolutions, and convAnswers such as cuDNN was asked about on a GPU: what it answers is what
// PyTorch's allocator is asked for. No tree has seen convJudges.
const (
	convData    = "testdata/convolutions.bin.gz"
	convAnswers = "testdata/asked.bin.gz"
	convJudges  = "testdata/asked_judge.bin.gz"
)

// A measuredConv is one convolution with the workspaces that cuDNN took, less than 0
// where the measurement did not see them.
type measuredConv struct {
	model  string
	shape  ConvShape
	passes [convPasses]int64
}

// readConvs reads the convolutions of a file, and returns a hash of it besides. The
// file is a line of JSON, which says what follows: columns of numbers in 7-bit groups.
func readConvs(t testing.TB, file string) (convs []measuredConv, hash uint32) {
	t.Helper()
	all := testfile.Unzipped(t, file)
	h := fnv.New32a()
	h.Write(all)
	line, b, _ := bytes.Cut(all, []byte{'\n'})
	var head struct {
		Rows   int
		Models []string
	}
	must.OK(t, json.Unmarshal(line, &head))
	next := func() int64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > math.MaxInt64 {
			t.Fatalf("%s ends too early", file)
		}
		b = b[n:]
		return int64(v)
	}
	convs = make([]measuredConv, head.Rows)
	dims := make([]int, head.Rows)
	column := func(set func(i int, v int64)) {
		for i := range convs {
			set(i, next())
		}
	}
	list := func(set func(i int, v []int64)) {
		for i := range convs {
			v := make([]int64, dims[i])
			for j := range v {
				v[j] = next()
			}
			set(i, v)
		}
	}
	column(func(i int, v int64) { convs[i].model = head.Models[v] })
	column(func(i int, v int64) { dims[i] = int(v) })
	column(func(i int, v int64) { convs[i].shape.Elem, convs[i].shape.Float16 = [...]int64{4, 2, 2}[v], v == 2 })
	column(func(i int, v int64) { convs[i].shape.ChannelsLast = v != 0 })
	column(func(i int, v int64) { convs[i].shape.Transposed = v != 0 })
	column(func(i int, v int64) { convs[i].shape.Groups = v })
	column(func(i int, v int64) { convs[i].shape.X, convs[i].shape.Y = []int64{v}, []int64{v} })
	column(func(i int, v int64) { convs[i].shape.X = append(convs[i].shape.X, v) })
	column(func(i int, v int64) {
		s := &convs[i].shape
		c, k := s.X[1], v
		s.Y = append(s.Y, k)
		if s.Transposed {
			c, k = k, c
		}
		s.W = []int64{k, c / s.Groups}
	})
	list(func(i int, v []int64) { convs[i].shape.X = append(convs[i].shape.X, v...) })
	list(func(i int, v []int64) { convs[i].shape.W = append(convs[i].shape.W, v...) })
	list(func(i int, v []int64) { convs[i].shape.Y = append(convs[i].shape.Y, v...) })
	list(func(i int, v []int64) { convs[i].shape.Stride = v })
	list(func(i int, v []int64) { convs[i].shape.Dilation = v })
	for pass := range convPasses {
		column(func(i int, v int64) { convs[i].passes[pass] = v - 1 })
	}
	if len(b) > 0 {
		t.Fatalf("%s: %d bytes too many", file, len(b))
	}
	return convs, h.Sum32()
}

// modelFamily is what a model's name starts with, up to a digit or an underscore: models
// of one family share most of their convolutions.
func modelFamily(name string) string {
	for i, c := range name {
		if c == '_' || c >= '0' && c <= '9' {
			return name[:i]
		}
	}
	return name
}

func hashOf(s string) uint32 {
	h := fnv.New32a()
	io.WriteString(h, s)
	return h.Sum32()
}

func foldOf(s string) int { return int(hashOf(s)>>8) % convFolds }

// leftOut says which passes of convAnswers no tree grows on: y of one image of few channels, of which a row of pixels
// is summed in parts where as many in rows and columns, as most of the measured ones have them, are not. Trees that
// grew on it took 3 MiB for four layers of resnet50 with one image that took none (snapshot/testdata/resnet50_seed).
func leftOut(s *ConvShape, pass ConvPass) bool {
	return pass == ConvForward && s.X[0] == 1 && s.X[1] < 1024
}

// readConvSamples reads the measured passes and those that were asked about; figures are worked out for those that use
// takes. Nothing that counts as the same convolution is in two folds: channels, image,
// filter, stride and groups are its own, its batch, element type and memory format are not.
func readConvSamples(t testing.TB, use func(i int) bool) (samples []*convSample, hash uint32) {
	convs, hash := readConvs(t, convData)
	measured := len(convs)
	more, of := readConvs(t, convAnswers)
	convs, hash = append(convs, more...), hash^of
	key := func(s *ConvShape) string {
		return fmt.Sprint(s.X[1:], s.W, s.Stride, s.Groups, s.Transposed)
	}
	families := map[string]string{}
	for i := range convs {
		if m := &convs[i]; m.model != "" {
			if k := key(&m.shape); families[k] == "" {
				families[k] = modelFamily(m.model)
			}
		}
	}
	natives, taking := 0, 0
	for i := range convs {
		if !use(i) {
			continue
		}
		m := &convs[i]
		k := key(&m.shape)
		fold := foldOf(k)
		family := fold
		if f := families[k]; f != "" {
			family = foldOf(f)
		}
		for pass, want := range m.passes {
			if want < 0 || i >= measured && leftOut(&m.shape, ConvPass(pass)) {
				continue
			}
			w, ok := m.shape.work(ConvPass(pass), gpu.Default())
			if !ok {
				t.Fatalf("row %d is no convolution", i)
			}
			if w.native() {
				natives++
				taking += b2i(want > 8192)
				continue
			}
			samples = append(samples, &convSample{model: m.model, fold: fold, family: family,
				share: uint16(hashOf(k) ^ hashOf(k)>>16), shape: &m.shape, pass: ConvPass(pass), work: w, figures: w.features(),
				want: want, asked: i >= measured})
		}
	}
	if taking*100 > natives { // in float16, where cuDNN runs some
		t.Errorf("%d of %d native passes take a workspace", taking, natives)
	}
	return samples, hash
}

func (s *convSample) kind() string {
	dtype := "fp32"
	if s.shape.Float16 {
		dtype = "fp16"
	} else if s.work.elem == 2 {
		dtype = "bf16"
	}
	return dtype + [2]string{" row-major", " channels-last"}[b2i(s.work.last)] +
		[convPasses]string{" y", " gradient of x", " gradient of w"}[s.pass]
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
