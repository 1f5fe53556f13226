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
