package shape

import (
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/test/must"
)

func TestRoomsAreWellFormed(t *testing.T) {
	type version struct {
		opKey
		since int64
	}
	seen := map[version]bool{}
	for _, r := range families {
		if r.domain == "ai.onnx" {
			t.Errorf("a room calls its domain %q, want \"\"", r.domain)
		}
		for _, o := range r.ops {
			v := version{opKey{r.domain, o.name}, o.since}
			if seen[v] {
				t.Errorf("%s:%s has two rows for version %d", r.domain, o.name, o.since)
			}
			seen[v] = true
			if o.name == "" || o.since < 1 {
				t.Errorf("row %s:%q since %d: want a name and a version above 0", r.domain, o.name, o.since)
			}
			if r.domain == "" && o.since > onnxload.LatestOpset {
				t.Errorf("%s since %d is newer than onnxload.LatestOpset", o.name, o.since)
			}
			if o.infer == nil {
				t.Errorf("%s:%s since %d has no infer", r.domain, o.name, o.since)
			}
		}
	}
}

func TestFindTakesTheNewestRowInForce(t *testing.T) {
	one, seven, extra := &op{name: "A", since: 1}, &op{name: "A", since: 7}, &op{name: "Skip", since: 1}
	tab := table{
		{"", "A"}:                 {one, seven},
		{"com.microsoft", "Skip"}: {extra},
	}
	for _, c := range []struct {
		domain, name string
		version      int64
		want         *op
	}{
		{"", "A", 1, one},
		{"", "A", 6, one},
		{"", "A", 7, seven},
		{"ai.onnx", "A", 99, seven},
		{"", "A", 0, one},
		{"", "B", 7, nil},
		{"", "Skip", 17, extra},
		{"com.microsoft", "Skip", 1, extra},
		{"com.microsoft", "A", 1, nil},
	} {
		if got := tab.find(c.domain, c.name, c.version); got != c.want {
			t.Errorf("find(%q, %q, %d) = %v, want %v", c.domain, c.name, c.version, got, c.want)
		}
	}
}

func TestNewerOpsetIsNoted(t *testing.T) {
	m := parseModel(t, "in x:2,3\ny = Identity x\nout y")
	m.Opsets = map[string]int64{"": 99}
	m.Graph.Nodes[0].Version = 99
	r, err := Infer(m, Options{})
	must.OK(t, err)
	wantTypes(t, r, "y:2,3")
	if len(r.Notes) != 1 || r.Notes[0] != "opset 99 is newer than 28, whose rules are applied" {
		t.Errorf("notes are %q", r.Notes)
	}
}

// torch.squeeze(x, 1) leaves a dimension that is not 1, and its export says so to the letter.
func TestSqueezeOfMoreThanOneStays(t *testing.T) {
	r := mustInfer(t, `
		in x:2,3,1
		axes = Constant value_ints=1,2
		y = Squeeze x axes
		out y`, Options{})
	wantTypes(t, r, "y:2,3")
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "axis 1 of [2, 3, 1] is not 1, so it stays") {
		t.Errorf("notes are %q", r.Notes)
	}
}
