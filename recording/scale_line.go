package recording

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Searches reports whether the searches for engines, of torch.backends.cudnn.benchmark, are known at other batches:
// not where one recording has searches that the other lacks.
func (f *Family) Searches() bool { return f.search }

// alike reports whether two searches are of one pass at two batch sizes.
func (s Search) alike(other Search) bool {
	x, y := s.Shape, other.Shape
	alike := len(x.X) == len(y.X) && len(x.Y) == len(y.Y) && len(x.W) == len(y.W)
	x.X, x.W, x.Y, y.X, y.W, y.Y = nil, nil, nil, nil, nil, nil
	return alike && slices.Equal(x.AppendKey(nil, s.Pass), y.AppendKey(nil, other.Pass))
}

// scaleSearches scales the shapes of searches, and what their engines take, which is nearly proportional.
func (s *scaler) scaleSearches() {
	if !s.search {
		return
	}
	for i := range s.a.Searches {
		x, y := &s.a.Searches[i], &s.b.Searches[i]
		of := *x
		for _, shapes := range [...]struct {
			to   *[]int64
			x, y []int64
		}{{&of.Shape.X, x.Shape.X, y.Shape.X}, {&of.Shape.W, x.Shape.W, y.Shape.W}, {&of.Shape.Y, x.Shape.Y, y.Shape.Y}} {
			*shapes.to = make([]int64, len(shapes.x))
			for d := range shapes.x {
				(*shapes.to)[d] = s.must(shapes.x[d], shapes.y[d])
			}
		}
		of.Bytes, of.Found = s.near(x.Bytes, y.Bytes), s.near(x.Found, y.Found)
		s.out.Searches = append(s.out.Searches, of)
	}
}

// near is line of what may lie beside it, rounded.
func (s *scaler) near(x, y int64) int64 {
	rise := float64(y-x) / float64(s.batchB-s.batchA) * float64(s.batch-s.batchA)
	return int64(math.Round(min(max(float64(x)+rise, 0), maxBytes)))
}

// line returns what is x at the one batch and y at the other.
func (s *scaler) line(x, y int64) (int64, error) {
	if x == y {
		return x, nil
	}
	rise, run := y-x, s.batchB-s.batchA
	if math.Abs(float64(rise))*math.Abs(float64(s.batch-s.batchA)) > 1<<62 {
		return 0, fmt.Errorf("a batch of %d is more than any computer takes", s.batch)
	}
	n := rise * (s.batch - s.batchA)
	if n%run != 0 || x > maxBytes || y > maxBytes || x+n/run < 0 || x+n/run > maxBytes {
		return 0, fmt.Errorf("what is %d at batch %d and %d at batch %d is no whole number at batch %d",
			x, s.batchA, y, s.batchB, s.batch)
	}
	return x + n/run, nil
}

// must is line where there is no recording without it.
func (s *scaler) must(x, y int64) int64 {
	n, err := s.line(x, y)
	s.err = cmp.Or(s.err, err)
	return n
}

func product(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		if n *= d; n > maxBytes {
			return maxBytes
		}
	}
	return n
}
