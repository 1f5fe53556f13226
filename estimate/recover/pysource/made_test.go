package pysource

import "testing"

// A line that makes a module of an activation and calls it says how the module works.
func TestMadeInPlace(t *testing.T) {
	for source, want := range map[string]struct{ yes, known bool }{
		"h = nn.LeakyReLU(0.2,inplace=True)(h)":       {true, true},
		"h = torch.nn.ReLU(True)(self.norm(h))":       {true, true},
		"h = nn.LeakyReLU(0.2)(h)":                    {false, true},
		"return nn.SiLU()(h)":                         {false, true},
		"h = nn.ReLU(inplace=False)(h)":               {false, true},
		"h = nn.ReLU(inplace=self.inplace)(h)":        {false, false},
		"h = nn.ReLU(inplace)(h)":                     {false, false},
		"h = nn.Sequential(conv, nn.ReLU(True))(h)":   {false, false},
		"h = self.act(h)":                             {false, false},
		"h = nn.ReLU(True)(h) + nn.ReLU()(self.c(h))": {false, false},
	} {
		s := New([]Frame{{Func: "forward", Source: source},
			{Up: 1, Func: "forward", Source: "return F.relu(input, inplace=self.inplace)"}})
		if yes, known := s.MadeInPlace(2); yes != want.yes || known != want.known {
			t.Errorf("%s: %v, known %v, want %v and %v", source, yes, known, want.yes, want.known)
		}
		if _, known := s.MadeInPlace(1); known {
			t.Errorf("%s: known of a line that nothing calls", source)
		}
	}
}
