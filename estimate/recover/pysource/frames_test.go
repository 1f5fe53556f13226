package pysource

import "testing"

// A stack is asked for the frames around it, those of its modules' forwards, and for levels that it does not have.
func TestAt(t *testing.T) {
	s := New([]Frame{
		{Up: 0, Func: "forward", Source: "x = self.layer1(x)"},
		{Up: 1, Func: "forward", Source: "y = self.conv(x)"},
		{Up: 2, Func: "helper", Source: "return F.conv2d(x, w)"},
	})
	for _, c := range []struct {
		stack int32
		level int
		want  int32
	}{
		{3, 1, 1}, {3, 2, 2}, {3, 3, 0}, {3, 0, 0}, {3, -1, 0}, {1, 1, 1}, {1, 0, 0}, {0, 1, 0},
	} {
		if got := s.At(c.stack, c.level); got != c.want {
			t.Errorf("stack %d at level %d: frame %d, want %d", c.stack, c.level, got, c.want)
		}
	}
}

// A softmax may be asked for the type of its argument, or of another.
func TestOfItsType(t *testing.T) {
	for source, want := range map[string]bool{
		"attn = nn.functional.softmax(attn, dim=-1, dtype=attn.dtype)":    true,
		"return scores.softmax(-1, dtype=scores.dtype) @ v":               true,
		"attn = F.softmax(attn, dim=-1, dtype=torch.float32).to(q.dtype)": false,
		"attn = F.softmax(attn, dim=-1, dtype=q.dtype)":                   false,
		"attn = attn.softmax(dim=-1, dtype=torch.float32).to(attn.dtype)": false,
		"attn = F.softmax(attn.float(), dim=-1)":                          false,
	} {
		s := New([]Frame{{Func: "forward", Source: source}})
		if got := s.OfItsType(1); got != want || s.OfItsType(0) {
			t.Errorf("%s: %v, want %v", source, got, want)
		}
	}
}

// A norm that computes in float32 says itself that it returns the type that it was given, and of what.
func TestCastsBack(t *testing.T) {
	for source, want := range map[string]bool{
		"return super().forward(x.float()).type(x.dtype)":     true,
		"return super().forward(x.float()).to(x.dtype)":       true,
		"return super().forward(x.float()).type_as(x)":        true,
		"return super().forward(x.float()).type(other.dtype)": false,
		"return super().forward(x.float())":                   false,
		"return super().forward(x).type(torch.float16)":       false,
	} {
		s := New([]Frame{{Func: "forward", Source: source},
			{Up: 1, Func: "forward", Source: "return F.group_norm(input, self.num_groups)"}})
		if got := s.CastsBack(2); got != want || s.CastsBack(1) || s.CastsBack(0) {
			t.Errorf("%s: %v, want %v", source, got, want)
		}
	}
}
