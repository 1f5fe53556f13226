package shape

import "fmt"

// A window is how a convolution or a pooling slides over the spatial axes.
type window struct {
	kernel             []Dim // without dilation
	strides, dilations []int64
	begin, end         []int64 // explicit padding
	same               bool    // SAME_UPPER or SAME_LOWER: padding follows from the sizes
}

// window reads the attributes that convolutions and poolings share. Padding by
// auto_pad leaves the attribute pads without effect, as ONNX Runtime has it:
// the specification forbids both at once.
func (c *call) window(kernel []Dim) window {
	n := len(kernel)
	w := window{kernel: kernel}
	for _, k := range kernel {
		if v, ok := k.Int(); ok && v <= 0 {
			c.fail("the kernel has size %d, wanted a positive number", v)
		}
	}
	w.strides = c.perAxis("strides", n, 1, 1)
	w.dilations = c.perAxis("dilations", n, 1, 1)
	pads := c.perAxis("pads", 2*n, 0, 0)
	w.begin, w.end = pads[:n], pads[n:]
	switch auto := c.attrStr("auto_pad", "NOTSET"); auto {
	case "NOTSET", "":
	case "VALID":
		none := make([]int64, n)
		w.begin, w.end = none, none
	case "SAME_UPPER", "SAME_LOWER":
		w.same = true
	default:
		c.fail("attribute auto_pad is %q, wanted NOTSET, VALID, SAME_UPPER or SAME_LOWER", auto)
	}
	return w
}

// extent returns what the dilated kernel covers of axis i.
func (w *window) extent(i int) Dim {
	return Add(Mul(Sub(w.kernel[i], N(1)), N(w.dilations[i])), N(1))
}

// steps returns how many places the window takes on axis i of the size in.
// With ceil, one more place that overlaps the end counts, unless it begins in
// the padding at the end (MaxPool, AveragePool and LpPool, attribute ceil_mode).
func (w *window) steps(i int, in Dim, ceil bool) (Dim, error) {
	stride := N(w.strides[i])
	if w.same {
		return CeilDiv(in, stride), nil // attribute auto_pad: output = ceil(input / stride)
	}
	begun := Add(in, N(w.begin[i]))
	room := Sub(Add(begun, N(w.end[i])), w.extent(i))
	// PyTorch takes a kernel that is larger than the axis where the place that ceil adds begins on it
	// (pooling_output_shape in aten/src/ATen/native/Pool.h): EfficientNet's AvgPool2d(2560, ceil_mode=True).
	if n, ok := room.Int(); ok && n < 0 && (!ceil || n <= -w.strides[i]) {
		return Dim{}, fmt.Errorf("the kernel covers %s elements of spatial axis %d, which has %s with padding",
			w.extent(i), i, Add(begun, N(w.end[i])))
	}
	if !ceil || w.strides[i] == 1 {
		return Add(FloorDiv(room, stride), N(1)), nil
	}
	return Min(Add(CeilDiv(room, stride), N(1)), CeilDiv(begun, stride)), nil
}

// slide returns the sizes of all spatial axes after the window went over them.
func (w *window) slide(in []Dim, ceil bool) ([]Dim, error) {
	out := make([]Dim, len(in))
	for i, d := range in {
		var err error
		if out[i], err = w.steps(i, d, ceil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// spread returns the size of spatial axis i after a transposed convolution:
// the input size to which the forward convolution gives in, plus adjust elements.
func (w *window) spread(i int, in Dim, adjust int64) (Dim, error) {
	s := N(w.strides[i])
	full := Add(Add(Mul(Sub(in, N(1)), s), w.extent(i)), N(adjust))
	var out Dim
	if w.same {
		// attribute auto_pad: output = input * stride; padding only takes away,
		// so a kernel smaller than the stride gives less.
		out = Min(full, Mul(in, s))
	} else {
		out = Sub(Sub(full, N(w.begin[i])), N(w.end[i]))
	}
	if n, ok := out.Int(); ok && n < 0 {
		return Dim{}, fmt.Errorf("spatial axis %d has %d elements: the padding is larger than the output", i, n)
	}
	return out, nil
}

// kernelShape returns the attribute kernel_shape for n spatial axes, and whether it is there.
func (c *call) kernelShape(n int) ([]Dim, bool) {
	if k, ok := c.attrInts("kernel_shape"); !ok || len(k) == 0 {
		return nil, false
	}
	k := c.perAxis("kernel_shape", n, 1, 1)
	return OfInts(k...).Dims, true
}
