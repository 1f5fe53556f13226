package report

import "testing"

// A layer's number is shown whole or not at all: the 4 of 24 is another layer.
func TestEndOfName(t *testing.T) {
	s := &screen{}
	for _, c := range []struct {
		name string
		room int
		want string
	}{
		{"conv1", 14, "conv1"},
		{"m.model.layers.4.self_attn", 26, "m.model.layers.4.self_attn"},
		{"m.model.layers.4.self_attn", 22, "..layers.4.self_attn"},
		{"m.model.layers.24.self_attn", 14, "..24.self_attn"},
		{"m.model.layers.124.self_attn", 14, "..self_attn"},
		{"m.model.layers.4.self_attn", 14, "..4.self_attn"},
		{"/down/ConvolutionTransposed", 14, "..onTransposed"},
	} {
		if got := s.end(c.name, c.room); got != c.want || len(got) > c.room {
			t.Errorf("%s in %d characters: %q, want %q", c.name, c.room, got, c.want)
		}
	}
}
