package devices

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	per := SplitCost{Fixed: 2 * gib, PerSample: gib / 4}
	gather := SplitCost{Fixed: 2 * gib, PerSample: gib / 4, First: 4 * gib, Gathered: gib / 96}
	for _, tt := range []struct {
		name  string
		batch int
		gib   []uint64
		c     SplitCost
		want  []int
		err   string
	}{
		{"one GPU takes it all", 96, []uint64{80}, per, []int{96}, ""},
		{"equal GPUs, equal parts", 96, []uint64{80, 80, 80}, per, []int{32, 32, 32}, ""},
		{"an odd sample goes to the later ones", 97, []uint64{80, 80, 80}, per, []int{32, 33, 32}, ""},
		{"two odd ones", 98, []uint64{80, 80, 80}, per, []int{32, 33, 33}, ""},
		{"the small one is filled to its brim", 96, []uint64{80, 10}, per, []int{64, 32}, ""},
		{"the first gets less by what it gathers", 96, []uint64{80, 80}, gather, []int{38, 58}, ""},
		{"down to nothing", 8, []uint64{80, 80, 80}, gather, []int{0, 4, 4}, ""},
		{"a GPU that holds no replica gets nothing", 8, []uint64{80, 80, 1}, per, []int{4, 4, 0}, ""},
		{"too much", 1000, []uint64{80, 80}, per, nil, "a batch of 1000 does not fit: there is room for 624 on 2 GPUs"},
		{"the first cannot gather", 10, []uint64{5, 80}, gather, nil,
			"the first GPU takes 6.10 GiB before it gets a part, and has 5.00 GiB"},
		{"samples that cost nothing", 10, []uint64{80, 80, 1}, SplitCost{Fixed: 2 * gib}, []int{5, 5, 0}, ""},
		{"no batch", 0, []uint64{80}, per, nil, "batch 0"},
		{"no GPU", 1, nil, per, nil, "no GPU"},
		{"costs beyond counting", 1 << 30, []uint64{80}, SplitCost{PerSample: 1 << 40}, nil, "does not fit"},
	} {
		var available []uint64
		for _, g := range tt.gib {
			available = append(available, g*gib)
		}
		got, err := Split(tt.batch, available, tt.c)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got %v, %v, want error %q", tt.name, got, err, tt.err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
}

// TestSplitProperties tries random hosts: a split fits and sums up, its fullest GPU cannot be
// relieved by moving a sample, and it is refused only where the room is too small.
func TestSplitProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		available := make([]uint64, 1+r.IntN(5))
		for i := range available {
			available[i] = r.Uint64N(1000)
		}
		c := SplitCost{Fixed: r.Uint64N(100), PerSample: 1 + r.Uint64N(20), First: r.Uint64N(200), Gathered: r.Uint64N(3)}
		batch := 1 + r.IntN(200)
		parts, err := Split(batch, available, c)
		if err != nil {
			room := 0
			for i, a := range available {
				if base := c.On(i, 0, batch); base <= a {
					room += int((a - base) / c.PerSample)
				}
			}
			if room >= batch && c.On(0, 0, batch) <= available[0] {
				t.Fatalf("Split(%d, %v, %+v): %v, but there is room for %d", batch, available, c, err, room)
			}
			continue
		}
		sum, fullest := 0, uint64(0)
		for i, p := range parts {
			sum += p
			if p > 0 {
				fullest = max(fullest, c.On(i, p, batch))
			}
			if p < 0 || (p > 0 || i == 0) && c.On(i, p, batch) > available[i] {
				t.Fatalf("Split(%d, %v, %+v) = %v: GPU %d is over", batch, available, c, parts, i)
			}
		}
		if sum != batch {
			t.Fatalf("Split(%d, %v, %+v) = %v: sums to %d", batch, available, c, parts, sum)
		}
		for i, p := range parts {
			if p == 0 || c.On(i, p, batch) < fullest || count(parts, c, batch, fullest) > 1 {
				continue
			}
			for j := range parts {
				if more := c.On(j, parts[j]+1, batch); i != j && more < fullest && more <= available[j] {
					t.Fatalf("Split(%d, %v, %+v) = %v: moving a sample from %d to %d relieves the fullest", batch, available, c,
						parts, i, j)
				}
			}
		}
	}
}

// count returns how many GPUs are as full as the fullest.
func count(parts []int, c SplitCost, batch int, fullest uint64) (n int) {
	for i, p := range parts {
		if p > 0 && c.On(i, p, batch) == fullest {
			n++
		}
	}
	return n
}

func TestBalanced(t *testing.T) {
	for _, tt := range []struct {
		batch, gpus, first int
		want               []int
	}{
		{96, 4, 12, []int{12, 28, 28, 28}},
		{96, 4, 10, []int{10, 29, 29, 28}},
		{97, 3, 0, []int{0, 49, 48}},
		{96, 4, 24, []int{24, 24, 24, 24}}, // not below the others' part: DataParallel's
		{10, 4, 9, []int{3, 3, 3, 1}},      // so here
		{9, 8, 9, []int{2, 2, 2, 2, 1}},    // fewer parts than GPUs, as torch.chunk
		{5, 1, 3, []int{5}},
	} {
		got, err := Balanced(tt.batch, tt.gpus, tt.first)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("Balanced(%d, %d, %d) = %v, %v, want %v", tt.batch, tt.gpus, tt.first, got, err, tt.want)
		}
	}
	for _, bad := range [][3]int{{0, 1, 0}, {1, 0, 0}, {1, 1, -1}, {1, 1, 2}} {
		if got, err := Balanced(bad[0], bad[1], bad[2]); err == nil {
			t.Errorf("Balanced%v = %v, want an error", bad, got)
		}
	}
}
