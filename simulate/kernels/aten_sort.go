package kernels

// atenSorts are the operators that sort, select and count. Those of CUB take temporary storage that follows from its
// source; that of 8-byte keys was measured (radixSortTemp).
var atenSorts = []operator{
	{"sort", on((*Kernels).sort, 0)}, // cuda/Sort.cpp, cuda/SortStable.cu
	{"argsort", on((*Kernels).sort, 0)},
	{"topk", on((*Kernels).topK, 0)}, // cuda/TensorTopK.cpp
	{"kthvalue", nil},
	{"median", on((*Kernels).median, 0)}, // cuda/Sorting.cpp
	{"nanmedian", on((*Kernels).median, 0)},
	{"median.dim", nil},
	{"nanmedian.dim", nil},
	{"_unique2", on((*Kernels).unique, 0)}, // cuda/UniqueCub.cu
	{"_unique", on((*Kernels).unique, 0)},
	{"unique_consecutive", on((*Kernels).uniqueConsecutive, 0)},
	{"nonzero", on((*Kernels).nonzero, 0)}, // cuda/Nonzero.cu
	{"masked_select", on((*Kernels).maskedSelect, 1)},
	{"torchvision::nms", on((*Kernels).nms, 0, 1)}, // torchvision/csrc/ops/cuda/nms_kernel.cu
	{"multinomial", on((*Kernels).multinomial, 0)}, // Distributions.cpp, cuda/MultinomialKernel.cu
	{"bincount", on((*Kernels).histogram, 0)},      // cuda/SummaryOps.cu
	{"histc", on((*Kernels).histogram, 0)},
	{"randperm", (*Kernels).randperm}, // cuda/Randperm.cu
}

// smallSort is the most elements of a dimension that are sorted in place (should_use_small_sort of cuda/Sort.h).
const smallSort = 4096

// pairsTemp is the temporary storage of CUB's radix sort of n keys with values of these bytes: of one pass none, else
// room for both once more, and for each tile a state of each digit. sortTile was measured for keys and values of 8
// bytes.
func pairsTemp(n, key, value int64) int64 {
	temp := radixSortTemp(n, int(8*key))
	if n > 2304 && key > 1 {
		temp += padTo(saturate(n, key), 256) + padTo(saturate(n, value), 256) - 2*padTo(saturate(n, 8), 256)
	}
	return temp
}

// sorted is the argument of sort(self, dim, descending) or sort.stable(self, stable, dim, descending) that says the
// dimension.
func sorted(c *Call) int {
	at := 1
	if c.Overload == "stable" {
		at = 2
	}
	if c.arg(at).Set {
		return int(c.int(at))
	}
	return -1
}

func (k *Kernels) sort(c *Call) {
	x := c.tensor(0)
	k.makesAll(c)
	k.sortInto(x, sorted(c))
}

// sortInto sorts a dimension of x; values and places have their tensors already.
func (k *Kernels) sortInto(x *Tensor, dim int) {
	n := x.size(dim)
	if n <= smallSort {
		k.play(Sort(n))
		return
	}
	if dim < 0 {
		dim += len(x.Shape)
	}
	var hold []int
	if !x.Dense || x.Stride[dim] != 1 { // a copy in which the dimension is innermost, and values and places as it lies
		hold = append(hold, k.take(x.Bytes()), k.take(x.Bytes()), k.take(x.as(8)))
	}
	switch segments := x.Elements / max(n, 1); {
	case segments == 1 || n >= 1000000: // one after the other
		places := k.take(saturate(8, n))
		k.scratch(pairsTemp(n, x.Elem, 8))
		hold = append(hold, places)
	case segments < 128: // all at once by value, then by segment
		a, b := k.take(x.as(8)), k.take(x.as(8))
		keys := k.take(x.Bytes())
		k.scratch(pairsTemp(x.Elements, x.Elem, 8))
		k.give(keys)
		k.scratch(pairsTemp(x.Elements, 8, 0))
		hold = append(hold, a, b)
	default:
		places := k.take(x.as(8))
		k.scratch(x.Bytes() + x.as(8)) // a segmented sort: keys and values once more
		hold = append(hold, places)
	}
	k.giveBack(hold)
}

// topK is topk(self, k, dim, largest, sorted). Long slices are searched by several blocks, which count digits: 256
// counts of 2 bytes for each block of 1,024 to 16,384 elements. Results of more than smallSort are sorted apart.
func (k *Kernels) topK(c *Call) {
	x := c.tensor(0)
	k.makes(0, 1)
	dim := -1
	if c.arg(2).Set {
		dim = int(c.int(2))
	}
	n := x.size(dim)
	if slices := x.Elements / max(n, 1); severalBlocks(slices, n) {
		k.give(k.guess(x.Elements/16, x.Elements/2+saturate(slices, 64)))
	}
	if y := c.result(0); (len(c.Args) < 5 || c.flag(4)) && y.size(dim) > smallSort {
		places, values := k.take(y.as(8)), k.take(y.Bytes())
		k.sortInto(y, dim)
		gathered := k.take(y.as(8))
		k.give(gathered, values, places)
	}
}

// severalBlocks is should_use_multiblock of cuda/TensorTopK.cu.
func severalBlocks(slices, n int64) bool {
	limits := [...]struct{ slices, size int64 }{{20, 20000}, {40, 10000}, {80, 8000}, {199, 5000}, {799, 3000},
		{4000, 800}}
	for _, at := range limits {
		if slices <= at.slices {
			return n >= at.size
		}
	}
	return n >= 400
}

// median sorts everything and takes one element.
func (k *Kernels) median(c *Call) {
	x := c.tensor(0)
	flat := NewTensor(x.DType, []int64{x.Elements}, []int64{1}, false)
	hold := []int{k.copyTo(x, RowMajor), k.take(x.Bytes()), k.take(x.as(8))}
	k.sortInto(flat, 0)
	k.makes(0)
	k.giveBack(hold)
}

// unique is _unique2(self, sorted, return_inverse, return_counts) or _unique: sorted with their places where the
// inverse is wanted. Values and counts keep the storage of as many elements as there are in all.
func (k *Kernels) unique(c *Call) {
	x := c.tensor(0)
	hold := []int{k.copyTo(x, RowMajor), k.take(x.Bytes())}
	if !c.flag(2) {
		k.scratch(pairsTemp(x.Elements, x.Elem, 0))
	} else {
		places := k.take(x.as(8))
		hold = append(hold, k.take(x.as(8)))
		k.scratch(pairsTemp(x.Elements, x.Elem, 8))
		k.give(places)
		k.makes(1)
		sums := k.take(x.as(8))
		k.scratch(scanTemp(x.Elements))
		k.give(sums)
	}
	k.distinct(c, x, hold)
}

// uniqueConsecutive is unique_consecutive(self, return_inverse, return_counts), which does not sort.
func (k *Kernels) uniqueConsecutive(c *Call) {
	x := c.tensor(0)
	hold := []int{k.copyTo(x, RowMajor)}
	if c.flag(1) {
		k.makes(1)
		marks := k.take(x.as(4))
		k.scratch(scanTemp(x.Elements))
		k.give(marks)
	}
	k.distinct(c, x, hold)
}

// distinct picks the first of each run, and gives back what was held for it.
func (k *Kernels) distinct(c *Call, x *Tensor, hold []int) {
	k.makesAs(0, x.Bytes())
	length := k.take(8)
	if c.has(2) && c.result(2).Elements > 0 {
		k.makesAs(2, x.as(8))
	}
	k.scratch(scanTemp(x.Elements))
	k.give(length)
	k.giveBack(hold)
}

// nonzero counts first, and then selects: both by CUB, with temporary storage that follows from its source (a partial
// sum for each block that fits the GPU, a state for each tile) and was not measured. It is a hundredth of the input at
// most.
func (k *Kernels) nonzero(c *Call) {
	x := c.tensor(0)
	k.places(x, func() { k.makes(0) })
}

// places finds what is not zero; result allocates what they are written to.
func (k *Kernels) places(x *Tensor, result func()) {
	copied := k.copyTo(x, RowMajor)
	count := k.take(4)
	k.scratch(min(x.Elements/2048, int64(k.device.Multiprocessors)*40)*4 + 255)
	result()
	k.scratch(x.Elements/160 + 767)
	k.give(count, copied)
}

// maskedSelect is masked_select(self, mask): an index by the places that the mask names, of which there are as many as
// results.
func (k *Kernels) maskedSelect(c *Call) {
	mask := c.tensor(1)
	found := -1
	k.places(mask, func() { found = k.take(saturate(8, c.result(0).Elements, int64(len(mask.Shape)))) })
	k.makes(0)
	k.give(found)
}

// nms is torchvision::nms(dets, scores, iou_threshold): a stable sort of the scores, the boxes in that order, of each
// box a bit for each other one in words of 64, and which are kept, by which their places are selected.
func (k *Kernels) nms(c *Call) {
	boxes, scores := c.tensor(0), c.tensor(1)
	n := scores.Elements
	values, order := k.take(scores.Bytes()), k.take(saturate(n, 8))
	k.sortInto(scores, 0)
	k.give(values)
	sorted := k.take(boxes.Bytes())
	words := k.take(saturate(n, ceilDiv(n, 64), 8))
	keep := k.take(n)
	found := -1
	k.places(NewTensor("bool", []int64{n}, []int64{1}, false), func() {
		found = k.take(saturate(8, c.result(0).Elements))
	})
	k.makes(0)
	k.give(found, keep, words, sorted, order)
}

// multinomial is multinomial(self, num_samples, replacement): without replacement, or of one sample, the largest
// quotients of the probabilities and exponential noise; else from copies of the probabilities, their sums to one, and
// these summed up.
func (k *Kernels) multinomial(c *Call) {
	x := c.tensor(0)
	k.makes(0)
	if c.flag(2) && c.int(1) > 1 {
		hold := []int{k.take(x.Bytes()), k.take(x.Bytes()), k.take(x.Bytes())}
		k.giveBack(hold)
		return
	}
	noise := k.take(x.Bytes())
	if c.int(1) > 1 {
		k.scratch(saturate(c.result(0).Elements, x.Elem))
	}
	k.give(noise)
}

// histogram is bincount(self, weights, minlength) or histc(self, bins, min, max): of 100 to 1,000 bins each block of
// 512 elements may count in a row of its own.
func (k *Kernels) histogram(c *Call) {
	x := c.tensor(0)
	k.makes(0)
	if bins := c.result(0).Elements; bins >= 100 && bins < 1000 {
		k.give(k.guess(0, saturate(ceilDiv(x.Elements, 512), c.result(0).Bytes())))
	}
}

// randperm sorts an arange by random keys: 4 bytes of each, 8 where that leaves too many equal ones.
func (k *Kernels) randperm(c *Call) {
	y := c.result(0)
	if y.Elements < 2 {
		return
	}
	k.makes(0)
	keys := int64(4)
	if y.Elements > 1<<16 {
		keys = 8
	}
	hold := []int{k.take(y.Bytes()), k.take(y.as(keys)), k.take(y.as(keys))}
	k.scratch(pairsTemp(y.Elements, keys, y.Elem))
	k.giveBack(hold)
}
