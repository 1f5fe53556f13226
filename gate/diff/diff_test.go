package diff

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/recover/module"
)

// layer returns a layer of a chain: its name and its width.
func layer(name, op string, width int64) module.Layer {
	return module.Layer{
		Name: name, Op: op, Params: width, ParamBytes: 4 * width, Activation: 4 * width,
		Outputs: []module.Tensor{{Name: name, DType: "float32", Shape: []int64{width}}},
	}
}

func reportOf(layers []module.Layer) *estimate.Report {
	r := &estimate.Report{Layers: layers}
	for _, l := range layers {
		r.Parameters.Bytes += l.ParamBytes
		r.Activations.Forward += l.Activation
	}
	return r
}

// chain returns n layers whose names count them.
func chain(n int, width func(i int) int64) (out []module.Layer) {
	for i := range n {
		out = append(out, layer(fmt.Sprintf("/Layer_%d", i), []string{"Conv", "Relu", "Add"}[i%3], width(i)))
	}
	return out
}

// kinds counts the changes of each kind.
func kinds(c Case) map[string]int {
	out := map[string]int{"same": c.Same}
	for _, l := range c.Layers {
		out[l.Kind]++
	}
	return out
}

// Whatever is done to a chain of layers of different widths, every layer is in the answer once, and what the layers
// change by is what the totals change by.
func TestChangesAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		base := chain(rng.IntN(40), func(i int) int64 { return 1 + rng.Int64N(8) })
		var head []module.Layer
		for _, l := range base {
			switch rng.IntN(10) {
			case 0: // removed
			case 1:
				head = append(head, l, layer("new", "Gemm", 77))
			case 2:
				l.Name += "x"
				head = append(head, l)
			case 3:
				head = append(head, layer(l.Name, l.Op, l.Params+1))
			default:
				head = append(head, l)
			}
		}
		rng.Shuffle(min(len(head), rng.IntN(6)), func(i, j int) { head[i], head[j] = head[j], head[i] })
		c := Compare("", reportOf(base), reportOf(head))
		var params, activation int64
		seen := map[*module.Layer]bool{}
		both := c.Same
		for _, l := range c.Layers {
			params += l.ParamBytes
			activation += l.Activation
			for _, x := range []*module.Layer{l.Base, l.Head} {
				if x != nil && seen[x] {
					t.Fatalf("layer %q is there twice", x.Name)
				}
				seen[x] = true
			}
			if l.Base != nil && l.Head != nil {
				both++
			}
		}
		if both+c.Count(Removed) != len(base) || both+c.Count(Added) != len(head) {
			t.Fatalf("%d pairs, %d removed, %d added, of %d and %d layers", both, c.Count(Removed), c.Count(Added), len(base),
				len(head))
		}
		if p := c.Total(Parameters); p.Change != params || c.Total(Activations).Change != activation {
			t.Fatalf("layers change by %d and %d bytes, totals by %d and %d", params, activation, p.Change,
				c.Total(Activations).Change)
		}
	}
}

// An edit is told as what it is.
func TestEdits(t *testing.T) {
	base := chain(30, func(i int) int64 { return int64(i + 1) })
	edit := func(f func([]module.Layer) []module.Layer) map[string]int {
		return kinds(Compare("", reportOf(base), reportOf(f(append([]module.Layer(nil), base...)))))
	}
	for _, tt := range []struct {
		name string
		edit func([]module.Layer) []module.Layer
		want map[string]int
	}{
		{"nothing", func(l []module.Layer) []module.Layer { return l }, map[string]int{"same": 30}},
		{"widened", func(l []module.Layer) []module.Layer {
			l[9] = layer(l[9].Name, l[9].Op, 999)
			return l
		}, map[string]int{"same": 29, Changed: 1}},
		{"renamed", func(l []module.Layer) []module.Layer { l[9].Name = "other"; return l },
			map[string]int{"same": 29, Renamed: 1}},
		{"removed", func(l []module.Layer) []module.Layer { return append(l[:9], l[10:]...) },
			map[string]int{"same": 29, Removed: 1}},
		{"inserted, all after it renumbered", func(l []module.Layer) []module.Layer {
			l = append(l[:9], append([]module.Layer{layer("", "Gemm", 5)}, l[9:]...)...)
			for i := 9; i < len(l); i++ {
				l[i].Name = fmt.Sprintf("/Layer_%d", i)
			}
			return l
		}, map[string]int{"same": 9, Added: 1, Renamed: 21}},
		{"moved", func(l []module.Layer) []module.Layer {
			return append(append(append([]module.Layer(nil), l[1:20]...), l[0]), l[20:]...)
		}, map[string]int{"same": 30}},
	} {
		if got := edit(tt.edit); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Models too long for one table are divided at names that are unique, and edits are found all the same.
func TestLongModels(t *testing.T) {
	base := chain(20_000, func(i int) int64 { return int64(i%1000 + 1) })
	head := append([]module.Layer(nil), base...)
	for i := 100; i < len(head); i += 1000 {
		head[i] = layer(head[i].Name, head[i].Op, 5000)
	}
	head = append(head[:10_050], head[10_060:]...)
	got := kinds(Compare("", reportOf(base), reportOf(head)))
	if want := map[string]int{"same": 20_000 - 20 - 10, Changed: 20, Removed: 10}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Names are compared to the byte, whatever JSON makes of them.
func TestNamesAreBytes(t *testing.T) {
	a, b := layer("\xff", "Conv", 3), layer("\xfe", "Conv", 4)
	x, y := []byte(a.Name), []byte(b.Name)
	a.NameBytes, b.NameBytes = &x, &y
	got := kinds(Compare("", reportOf([]module.Layer{a}), reportOf([]module.Layer{b})))
	if want := map[string]int{"same": 0, Added: 1, Removed: 1}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}
