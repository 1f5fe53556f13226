package kernels

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

// A searchedPass is a line of testdata/searches.jsonl.gz, which scripts/measure/searches.py made on an H100: a pass
// under torch.backends.cudnn.benchmark.
type searchedPass struct {
	shape        ConvShape
	pass         ConvPass
	search, then int64      // what its first and its second call took
	plans        [][2]int64 // engine and workspace of each plan that cuDNN named
}

func searchedPasses(t *testing.T) (passes []searchedPass) {
	t.Helper()
	for text := range bytes.Lines(testfile.Unzipped(t, "testdata/searches.jsonl.gz")) {
		var line struct {
			Of           []json.RawMessage
			Search, Then int64
			Plans        [][2]int64
		}
		must.OK(t, json.Unmarshal(text, &line))
		p := searchedPass{search: line.Search, then: line.Then, plans: line.Plans}
		var pass, dtype string
		s, padding := &p.shape, []int64{}
		for i, into := range []any{&pass, &dtype, &s.ChannelsLast, &s.Transposed, &s.Groups, &s.X, &s.W, &s.Y, &s.Stride,
			&s.Dilation, &padding} {
			must.OK(t, json.Unmarshal(line.Of[i], into))
		}
		p.pass = map[string]ConvPass{"forward": ConvForward, "input": ConvBackwardInput, "weight": ConvBackwardWeight}[pass]
		s.Elem, s.Float16 = 2, dtype == "float16"
		if dtype == "float32" {
			s.Elem = 4
		}
		passes = append(passes, p)
	}
	return passes
}

// A search takes the largest workspace of all plans, and finds one of the first ten. Of float32 the engines that cuDNN
// does not name without a GPU take what Search says, to 128 bytes where they are named, which they are in most passes.
func TestSearches(t *testing.T) {
	const near = 1 << 10 // bytes
	transforms := map[ConvPass]int64{ConvForward: 3, ConvBackwardWeight: 18, ConvBackwardInput: 50}
	named, absent, low := 0, 0, 0
	for _, p := range searchedPasses(t) {
		largest, first, offered, transform := int64(0), int64(0), int64(0), int64(-1)
		pass := p.pass
		if p.shape.Transposed {
			pass = [...]ConvPass{ConvBackwardInput, ConvForward, ConvBackwardWeight}[pass]
		}
		for i, plan := range p.plans {
			largest = max(largest, plan[1])
			if i < 10 {
				first = max(first, plan[1])
			}
			if plan[0] == transforms[pass] {
				transform = plan[1]
			} else {
				offered = max(offered, plan[1])
			}
		}
		if d := p.search - largest; d < -near || d > near || p.then > first+near {
			t.Errorf("%+v: a search of %d, %d found; the largest is %d, that of the first ten %d", p.shape, p.search, p.then,
				largest, first)
		}
		said := p.shape.Search(p.pass, offered)
		switch d := said - max(transform, offered); {
		case p.shape.Elem != 4:
			if said != offered {
				t.Errorf("%+v: %d of 16 bits, wanted %d", p.shape, said, offered)
			}
		case transform > offered && (d < -128 || d > 128):
			low++
			t.Logf("%+v, pass %d: %d, wanted %d", p.shape, p.pass, said, transform)
		case transform > offered:
			named++
		case said > offered:
			absent++
		}
	}
	t.Logf("%d transforms are as measured, %d are not, %d are not named", named, low, absent)
	if named < 80 || low > 2 || absent > 12 {
		t.Errorf("%d transforms are as measured, %d are not, and %d are not named", named, low, absent)
	}
}
