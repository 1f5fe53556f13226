package timeline

import (
	"slices"
	"strings"
	"testing"
)

func sample() *Log {
	l := &Log{Layers: []string{"fc"}}
	l.Alloc(Request{Bytes: 100, Layer: NoLayer, Category: Parameter}, 0)
	l.Mark(1, Forward)
	x := l.Alloc(Request{Bytes: 50, Category: Activation}, 0)
	l.Free(l.Alloc(Request{Bytes: 30, Category: Temporary}, 0), 0)
	l.Mark(1, Backward)
	l.Alloc(Request{Bytes: 40, Layer: NoLayer, Category: Gradient}, 0)
	l.Free(x, NoLayer)
	return l
}

// liveAt are the indices of what lives after an event.
func liveAt(s *Source, event int) (live []int) {
	for i := range s.Live(event) {
		live = append(live, i)
	}
	return live
}

func TestQueries(t *testing.T) {
	tl := sample().Source()
	bytes, event := tl.Peak()
	if bytes != 190 || event != 6 {
		t.Errorf("peak %d at %d, want 190 at 6", bytes, event)
	}
	if got := liveAt(tl, 3); !slices.Equal(got, []int{0, 2, 3}) {
		t.Errorf("live after 3: %v", got)
	}
	if got := liveAt(tl, 1000); !slices.Equal(got, []int{0, 6}) {
		t.Errorf("live at the end: %v", got)
	}
	by := tl.ByCategory(6)
	if by[Parameter] != 100 || by[Activation] != 50 || by[Gradient] != 40 || by[Temporary] != 0 {
		t.Errorf("by category at 6: %v", by)
	}
	l := new(Log)
	l.Free(l.Alloc(Request{Layer: NoLayer, Category: Temporary, Bytes: 7}, Searching), NoLayer)
	l.Release(NoLayer)
	l.Alloc(Request{Layer: NoLayer, Category: Gradient, Bytes: 9}, 0)
	released := l.Source()
	if err := released.Check(); err != nil || !slices.Equal(liveAt(released, 3), []int{3}) {
		t.Errorf("live after cached memory is given back: %v, %v", liveAt(released, 3), err)
	}
	empty := new(Log).Source()
	if b, e := empty.Peak(); b != 0 || e != -1 || len(liveAt(empty, 0)) != 0 {
		t.Errorf("empty log: peak %d at %d", b, e)
	}
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		blocks int32
		events []Event
		want   string
	}{
		"double free":    {1, []Event{{Layer: -1}, {Kind: Free, Layer: -1}, {Kind: Free, Layer: -1}}, "second time"},
		"never born":     {1, []Event{{Kind: Free, Layer: -1, Block: 0}}, "never allocated"},
		"negative":       {1, []Event{{Layer: -1, Bytes: -4}}, "-4 bytes"},
		"out of order":   {1, []Event{{Layer: -1, Block: 3}}, "wanted 0"},
		"too few":        {1, []Event{{Kind: Mark, Layer: -1}}, "0 blocks are allocated"},
		"too many":       {0, []Event{{Layer: -1}}, "only 0 blocks"},
		"layer":          {0, []Event{{Kind: Mark, Layer: 0}}, "layer 0"},
		"phase":          {0, []Event{{Kind: Mark, Layer: -1, Phase: NumPhases}}, "phase 6"},
		"kind":           {0, []Event{{Kind: 9, Layer: -1}}, "kind 9"},
		"category":       {1, []Event{{Layer: -1, Category: NumCategories}}, "category 10"},
		"plan":           {1, []Event{{Layer: -1, Plan: -2}}, "plan -2"},
		"negative count": {-1, nil, "-1 blocks"},
		"huge count":     {1 << 30, nil, "number of events"},
	} {
		s := &Source{nil, c.blocks, len(c.events), slices.All(c.events)}
		err := s.Check()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one about %q", name, err, c.want)
		}
	}
}

// What is known of blocks stays theirs where another one lives on, and where they are corrected.
func TestKeepingKnowsBlocks(t *testing.T) {
	var l Log
	l.Mark(1, Forward)
	for i := range int32(4) {
		l.Alloc(Request{Bytes: 100 + int64(i), Layer: i, Category: Activation, Stream: uint8(i)}, 0)
		if i == 1 {
			l.Free(0, 0)
		}
	}
	l.SetCategory(2, Gradient)
	l.SetLayer(3, NoLayer)
	for _, l := range []*Log{&l, l.Keeping(0, l.Len()-1)} {
		for i := range int32(4) {
			want := Request{Bytes: 100 + int64(i), Layer: i, Category: Activation, Phase: Forward, Stream: uint8(i)}
			switch i {
			case 2:
				want.Category = Gradient
			case 3:
				want.Layer = NoLayer
			}
			if got := l.Of(i); got != want {
				t.Errorf("block %d: %+v, want %+v", i, got, want)
			}
		}
	}
}
