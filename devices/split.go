package devices

import (
	"fmt"
	"math/bits"
)

// A SplitCost says what a data-parallel step takes on each GPU, in bytes. The first GPU gathers the
// outputs of all and holds what the others only borrow, as torch.nn.DataParallel does.
type SplitCost struct {
	Fixed     uint64 // on every GPU: its replica of the parameters, context, workspaces
	PerSample uint64 // on every GPU, for each sample of its part
	First     uint64 // on the first GPU besides: gradients, optimizer state
	Gathered  uint64 // on the first GPU, for each sample of the whole batch: outputs, loss
}

// maxBatch bounds a batch so that sums of parts cannot overflow.
const maxBatch = 1 << 40

// On returns what a part of a batch takes on the GPU with that place; the largest
// number when it is more.
func (c SplitCost) On(place, part, batch int) uint64 {
	n := saturate(c.Fixed, c.PerSample, part)
	if place == 0 {
		n = saturate(saturate(n, c.Gathered, batch), c.First, 1)
	}
	return n
}

// saturate returns sum + each*n, or the largest number.
func saturate(sum, each uint64, n int) uint64 {
	hi, lo := bits.Mul64(each, uint64(n))
	total, carry := bits.Add64(sum, lo, 0)
	if hi != 0 || carry != 0 {
		return ^uint64(0)
	}
	return total
}

// Split divides a batch over GPUs with these bytes available, so that each part fits and the fullest GPU
// is as empty as can be: all are filled to one level, a smaller GPU to its brim at most. Of equal GPUs
// the first gets the smaller part, by as much as it gathers. The parts come in the order of the GPUs and
// add up to batch; a GPU may get 0.
//
// The largest parts that stay under a level are found for the least level that takes the whole batch;
// what is then too much is taken off GPUs that touch it, one sample each, the first GPU first and then from the
// last one on.
func Split(batch int, available []uint64, c SplitCost) ([]int, error) {
	if batch < 1 || batch > maxBatch {
		return nil, fmt.Errorf("batch %d: want 1 to %d", batch, maxBatch)
	}
	if len(available) == 0 {
		return nil, fmt.Errorf("no GPU to split the batch over")
	}
	if base := c.On(0, 0, batch); base > available[0] {
		return nil, fmt.Errorf("a batch of %d does not fit: the first GPU takes %s before it gets a part, and has %s", batch,
			FormatBytes(base), FormatBytes(available[0]))
	}
	parts := make([]int, len(available))
	// fill sets the largest parts that keep every GPU within level and returns their sum.
	fill := func(level uint64) (sum int) {
		for i, a := range available {
			parts[i] = c.capacity(i, min(a, level), batch)
			sum += parts[i]
		}
		return sum
	}
	if room := fill(^uint64(0)); room < batch {
		return nil, fmt.Errorf("a batch of %d does not fit: there is room for %d on %d GPUs", batch, room, len(available))
	}
	if c.PerSample == 0 {
		return evenly(batch, parts), nil
	}
	low, high := uint64(0), ^uint64(0)
	for low < high { // fill(high) takes the batch
		if middle := low + (high-low)/2; fill(middle) >= batch {
			high = middle
		} else {
			low = middle + 1
		}
	}
	// One byte less would be too little, so more GPUs touch the level than there are samples too many.
	excess := fill(high) - batch
	for k := 0; k < len(parts) && excess > 0; k++ {
		i := (len(parts) - k) % len(parts)
		if parts[i] > 0 && c.On(i, parts[i], batch) == high {
			parts[i]--
			excess--
		}
	}
	return parts, nil
}

// evenly divides a batch over the parts that are not 0, for samples that cost nothing. The later ones get
// one more where it does not come out even.
func evenly(batch int, parts []int) []int {
	n := 0
	for _, p := range parts {
		n += min(p, 1)
	}
	for i, p := range parts {
		if p > 0 {
			parts[i] = batch / n
			batch -= parts[i]
			n--
		}
	}
	return parts
}

// capacity returns the largest part, up to batch, that takes no more than level on the GPU at place.
func (c SplitCost) capacity(place int, level uint64, batch int) int {
	base := c.On(place, 0, batch)
	switch {
	case base > level || base == ^uint64(0):
		return 0
	case c.PerSample == 0:
		return batch
	}
	return int(min((level-base)/c.PerSample, uint64(batch)))
}

// Balanced divides a batch as BalancedDataParallel does with its gpu0_bsz: the first GPU gets first samples, the
// others the rest in equal parts, the earlier of them one more where it does not come out even. When
// first is not below such a part it does as torch.nn.DataParallel: equal parts, rounded up, and what is left
// for the last one; there may then be fewer parts than GPUs.
func Balanced(batch, gpus, first int) ([]int, error) {
	switch {
	case batch < 1 || batch > maxBatch:
		return nil, fmt.Errorf("batch %d: want 1 to %d", batch, maxBatch)
	case gpus < 1:
		return nil, fmt.Errorf("%d GPUs: want at least 1", gpus)
	case first < 0 || first > batch:
		return nil, fmt.Errorf("first part %d: want 0 to %d", first, batch)
	}
	if gpus > 1 {
		each := (batch - first) / (gpus - 1)
		if first < each {
			parts := make([]int, gpus)
			parts[0] = first
			rest := batch - first - each*(gpus-1)
			for i := 1; i < gpus; i++ {
				parts[i] = each
				if i <= rest {
					parts[i]++
				}
			}
			return parts, nil
		}
	}
	size := (batch + gpus - 1) / gpus // as torch.chunk
	var parts []int
	for left := batch; left > 0; left -= size {
		parts = append(parts, min(size, left))
	}
	return parts, nil
}
