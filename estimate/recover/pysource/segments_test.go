package pysource

import "testing"

// How many segments there are is a number or how many modules there are; another name says nothing.
func TestSegments(t *testing.T) {
	for line, want := range map[string]struct {
		n     int
		alone bool
	}{
		"x, m, *_ = checkpoint_sequential(self.layers, 1, inp)":                {1, false},
		"x = cp.checkpoint_sequential(nn.Sequential(*self.layers[1:3]), 4, x)": {4, false},
		"x = checkpoint_sequential(self.layers, len(self.layers), x)":          {0, true},
		"x = checkpoint_sequential(segments=2, functions=self.layers,":         {2, false},
		"x = checkpoint_sequential(self.layers, self.segments, x)":             {0, false},
		"x = checkpoint_sequential(":                                           {0, false},
		"x = checkpoint(self.f, 3)":                                            {0, false},
	} {
		if n, alone := Segments(line); n != want.n || alone != want.alone {
			t.Errorf("%s: %d segments, alone %v, want %d and %v", line, n, alone, want.n, want.alone)
		}
	}
}
