package kernels

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/must"
)

var (
	convWrite   = flag.Bool("conv.write", false, "grow and write the forests that choose convolution workspaces")
	convGrow    = flag.Bool("conv.grow", false, "grow all the forests again, to compare them with those written")
	convHeldOut = flag.String("conv.heldout", "",
		"cross-validate the choice of convolution workspaces: by family, or by convolution")
	convFold = flag.Int("conv.fold", -1, "only this of the folds")
)

// near says whether a prediction is within 10 %, or within the 8 KiB that
// decide nothing.
func near(got, want int64) bool { return nearConv(got, want, 0.1) }

// A convChoice is what a forest says of a sample.
type convChoice struct {
	bytes, most int64 // ConvPlan.Bytes and Most
	any         bool  // some tree that doubts comes near
}

func (s *convSample) chosen(f *convForest) (c convChoice) {
	leaves, n := f.leaves(&s.figures)
	if n == 0 {
		return c
	}
	for i, e := range leaves[:n+convDoubts] {
		bytes := s.work.bytes(f.engines[e])
		c.any = c.any || i >= n && near(bytes, s.want)
	}
	c.bytes = f.bytes(s.shape, s.pass, &s.work, leaves[:n+convDoubts])
	c.most = max(c.bytes, s.work.largest(f, leaves[:n+convDoubts]))
	return c
}

// tally counts how many predictions are near, and what they are off by, in bytes.
type tally struct {
	n, near, exact, any int
	above, aboveMost    int     // exceeded by more than 1 % and 8 KiB
	off, bias, want     float64 // bytes
}

func (a *tally) add(s *convSample, c convChoice) {
	a.n++
	a.near += b2i(near(c.bytes, s.want))
	a.exact += b2i(nearConv(c.bytes, s.want, 0.001))
	a.any += b2i(c.any)
	a.above += b2i(s.want > c.bytes+c.bytes/100+8192)
	a.aboveMost += b2i(s.want > c.most+c.most/100+8192)
	a.off += math.Abs(float64(c.bytes - s.want))
	a.bias += float64(c.bytes - s.want)
	a.want += float64(s.want)
}

func (a *tally) share() float64 { return float64(a.near) / float64(a.n) }

func (a *tally) String() string {
	n := float64(a.n)
	return fmt.Sprintf("%6d, within 10 %%: %5.1f %%, 0.1 %%: %5.1f %%, some doubt within 10 %%: %5.1f %%, "+
		"exceeded: %5.2f %%, the most exceeded: %5.2f %%, bytes off %5.1f %%, bias %+5.1f %%",
		a.n, 100*a.share(), 100*float64(a.exact)/n, 100*float64(a.any)/n, 100*float64(a.above)/n, 100*float64(a.aboveMost)/n,
		100*a.off/a.want, 100*a.bias/a.want)
}

// tallies counts models and random shapes apart, each pass of each dtype and layout.
type tallies map[string]*tally

func (a tallies) add(s *convSample, c convChoice) {
	of := "models, "
	if s.model == "" {
		of = "random shapes, "
	}
	for _, k := range []string{of + s.kind(), of + "all", "all"} {
		if a[k] == nil {
			a[k] = &tally{}
		}
		a[k].add(s, c)
	}
}

func (a tallies) report(t *testing.T) {
	kinds := make([]string, 0, len(a))
	for k := range a {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		t.Logf("%-44s %s", k, a[k])
	}
}

// everyConv is one row of so many.
func everyConv(step int) func(int) bool { return func(i int) bool { return i%step == 0 } }

// The embedded forests have grown from the measurements: from that file, and the first
// tree of one of them is found again. With -conv.grow all of them are.
func TestConvForests(t *testing.T) {
	if testing.Short() {
		t.Skip("grows a tree")
	}
	samples, hash := readConvSamples(t, everyConv(1))
	all := func(*convSample) bool { return true }
	if *convWrite || *convGrow {
		forests, limits := growConvForests(samples, all)
		grown := encodeConvForests(hash, &limits, &forests)
		given := 0
		for _, s := range samples {
			given += b2i(len(s.engines) > 0)
		}
		t.Logf("%d bytes; some engine gives %.1f %% of %d sizes within 10 %%", len(grown),
			100*float64(given)/float64(len(samples)), len(samples))
		if float64(given) < 0.99*float64(len(samples)) {
			t.Error("the engines' formulas give less than 99 % of what was measured")
		}
		if *convWrite {
			must.Write(t, "conv_forest.bin", grown)
			return
		}
		if !bytes.Equal(grown, []byte(convForestFile)) {
			t.Error("conv_forest.bin is not what grows from the measurements")
		}
		return
	}
	const again = "run go test -run TestConvForests -conv.write"
	if got := binary.LittleEndian.Uint32([]byte(convForestFile)); got != hash {
		t.Fatalf("conv_forest.bin has grown from measurements with the hash %08x, these have %08x: %s", got, hash, again)
	}
	const kind = 2 // the gradient of x in fp32 and channels last is the smallest
	f := convForests[4+kind]()
	limits := convLimitsOf(samples, func(s *convSample) bool { return !s.asked })
	samples = slices.DeleteFunc(samples, func(s *convSample) bool { return s.work.convKind() != 4+kind })
	nameEngines(samples, f.engines)
	forests := [convKinds]grownForest{}
	grown, g := &forests[4+kind], newGrower(samples, &limits)
	grown.engines = f.engines
	for i := range convDoubts + 1 { // so many at least are a forest
		grown.trees = append(grown.trees, g.grow(i))
	}
	few := readConvForest(string(encodeConvForests(hash, &limits, &forests)), 4+kind)
	if few.trees != convDoubts+1 {
		t.Errorf("%d trees are read back, wanted %d", few.trees, convDoubts+1)
	}
	for tree := range few.trees {
		if !slices.Equal(few.branches(tree), f.branches(tree)) {
			t.Errorf("tree %d of conv_forest.bin is not what grows from the measurements: %s", tree, again)
		}
	}
}

// readConvForests reads all of a file's.
func readConvForests(file string) (all [convKinds]convForest) {
	for kind := range all {
		all[kind] = readConvForest(file, kind)
	}
	return all
}

// The forests, on convolutions or families of models that they have not grown on.
func TestConvHeldOut(t *testing.T) {
	if *convHeldOut == "" {
		t.Skip("without -conv.heldout")
	}
	samples, _ := readConvSamples(t, everyConv(1))
	by := tallies{}
	for fold := range convFolds {
		if *convFold >= 0 && fold != *convFold {
			continue
		}
		held := func(s *convSample) bool {
			if *convHeldOut == "family" {
				return s.family == fold
			}
			return s.fold == fold
		}
		forests, limits := growConvForests(samples, func(s *convSample) bool { return !held(s) })
		read := readConvForests(string(encodeConvForests(0, &limits, &forests)))
		for _, s := range samples {
			if held(s) {
				by.add(s, s.chosen(&read[s.work.convKind()]))
			}
		}
	}
	by.report(t)
}

// Nonsense must not panic or overflow; what is no convolution takes nothing.
func TestConvWorkspaceNonsense(t *testing.T) {
	passes := []ConvPass{ConvForward, ConvBackwardInput, ConvBackwardWeight}
	for _, s := range []ConvShape{
		{},
		{Elem: 4, X: []int64{1, 2}, W: []int64{1, 2}, Y: []int64{1, 2}, Groups: 1},
		{Elem: 4, X: []int64{1, 2, 0}, W: []int64{1, 2, 3}, Y: []int64{1, 2, 3}, Groups: 1},
		{Elem: 4, X: []int64{1, 2, 3}, W: []int64{1, 2, 3}, Y: []int64{1, 2, 3}},
	} {
		for _, p := range passes {
			if s.Plan(p, 0, gpu.Default()).Bytes != 0 {
				t.Errorf("%+v takes a workspace", s)
			}
		}
	}
	const huge = int64(1) << 62
	for _, groups := range []int64{1, 2, huge} {
		for _, last := range []bool{false, true} {
			s := ConvShape{Elem: 2, ChannelsLast: last, X: []int64{huge, huge, huge, 7}, W: []int64{huge, 5, huge, 7},
				Y: []int64{huge, huge, huge, 7}, Groups: groups}
			for _, p := range passes {
				if plan := s.Plan(p, 5, gpu.Default()); plan.Bytes < 0 || slices.Min(plan.Others[:]) < 0 {
					t.Errorf("%+v takes %d, or else %v", s, plan.Bytes, plan.Others)
				}
			}
			for _, e := range possibleEngines() {
				if w, _ := s.work(ConvBackwardWeight, gpu.Default()); w.bytes(e) < 0 || w.bytes(e) > convMaximum {
					t.Errorf("%+v: %+v takes %d", s, e, w.bytes(e))
				}
			}
		}
	}
}

// A damaged file must not panic.
func TestConvForestDamaged(t *testing.T) {
	samples, _ := readConvSamples(t, everyConv(5000))
	b := []byte(convForestFile)
	random := &grower{random: 1}
	for n := range 100 {
		damaged := slices.Clone(b)
		if n%2 == 0 {
			damaged = damaged[:random.intn(len(b))]
		}
		for range 50 {
			if at := random.intn(len(b)); at < len(damaged) {
				damaged[at] ^= byte(1 + random.intn(255))
			}
		}
		if n%4 == 1 {
			damaged[random.intn(4+4*convKinds)] ^= 0x55
		}
		forests := readConvForests(string(damaged))
		for _, s := range samples {
			c := s.chosen(&forests[s.work.convKind()])
			if c.bytes < 0 || c.bytes > convMaximum || c.most < c.bytes || c.most > convMaximum {
				t.Errorf("%d bytes, at most %d", c.bytes, c.most)
			}
		}
	}
}

// The other choices of a plan are those of different trees, and the same where all of these agree.
func TestOtherWorkspaces(t *testing.T) {
	agree, differ := 0, 0
	samples, _ := readConvSamples(t, everyConv(32))
	for i, s := range samples {
		f := convForests[s.work.convKind()]()
		leaves, trees := f.leaves(&s.figures)
		plan := s.shape.Plan(s.pass, i, gpu.Default())
		possible := map[int64]bool{}
		for _, e := range leaves[trees : trees+convDoubts] {
			bytes := s.work.bytes(f.engines[e])
			if bytes > plan.Most {
				bytes = plan.Bytes
			}
			possible[bytes] = true
		}
		for _, other := range plan.Others {
			if !possible[other] {
				t.Fatalf("%+v: no tree chooses %d", s.shape, other)
			}
			if other == plan.Bytes {
				agree++
			} else {
				differ++
			}
		}
		if len(possible) == 1 && slices.Max(plan.Others[:]) != slices.Min(plan.Others[:]) {
			t.Fatalf("%+v: all trees agree, but others are %v", s.shape, plan.Others)
		}
	}
	if agree == 0 || differ == 0 {
		t.Errorf("%d choices are the same, %d others", agree, differ)
	}
}

// Where cuDNN has kernels for NCHW in float32, at most the filter is copied; the bound has room for copies all the
// same, and no other device or type changes.
func TestConvWorkspaceByCapability(t *testing.T) {
	shape := ConvShape{Elem: 4, Groups: 1, X: []int64{32, 64, 56, 56}, W: []int64{64, 64, 3, 3},
		Y: []int64{32, 64, 56, 56}, Stride: []int64{1, 1}, Dilation: []int64{1, 1}}
	half := shape
	half.Elem = 2
	last := shape
	last.ChannelsLast = true
	const filter = 64 * 64 * 3 * 3 * 4
	for _, pass := range []ConvPass{ConvForward, ConvBackwardInput, ConvBackwardWeight} {
		for _, name := range []string{"rtx-3060", "rtx-4090", "l4", "a40", "a100-40gb"} {
			d, err := gpu.Find(name)
			must.OK(t, err)
			hopper := gpu.Other("as many multiprocessors", d.Memory, gpu.Capability{Major: 9}, d.Multiprocessors)
			got, copied := shape.Plan(pass, 0, d), shape.Plan(pass, 0, hopper)
			if copied.Bytes <= filter || got.Most != copied.Most {
				t.Errorf("pass %d: %d bytes on Hopper, at most %d; on %s at most %d", pass, copied.Bytes, copied.Most, name,
					got.Most)
			}
			if name == "a100-40gb" {
				if !reflect.DeepEqual(got, copied) {
					t.Errorf("pass %d on %s: %+v, wanted Hopper's %+v", pass, name, got, copied)
				}
			} else if got.Bytes > filter {
				t.Errorf("pass %d on %s: %d bytes, wanted at most the filter's %d", pass, name, got.Bytes, filter)
			}
			for _, s := range []ConvShape{half, last} {
				if got, want := s.Plan(pass, 0, d), s.Plan(pass, 0, hopper); !reflect.DeepEqual(got, want) {
					t.Errorf("pass %d on %s: %+v, wanted Hopper's %+v", pass, name, got, want)
				}
			}
		}
	}
}
