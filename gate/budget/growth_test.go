package budget

import (
	"math"
	"testing"
)

func TestGrowth(t *testing.T) {
	for _, tt := range []struct {
		text          string
		before, after int64
		want          bool
	}{
		{"5%", 1000, 1050, true},
		{"5%", 1000, 1051, false},
		{"0%", 1000, 1000, true},
		{"0%", 1000, 1001, false},
		{"0", 1000, 1001, false},
		{"50B", 1000, 1050, true},
		{"1KiB", 1000, 2025, false},
		{"2.5 %", 1000, 1025, true},
		{"5%", 1000, 10, true},
		{"8EiB", 1, 1, false},
		{"100%", math.MaxInt64, math.MaxInt64, true},
	} {
		g, err := ParseGrowth(tt.text)
		if err != nil {
			if tt.text != "8EiB" {
				t.Errorf("%q: %v", tt.text, err)
			}
			continue
		}
		if got := g.Allows(tt.before, tt.after); got != tt.want {
			t.Errorf("%s from %d to %d: %v", tt.text, tt.before, tt.after, got)
		}
	}
	for _, bad := range []string{"", "%", "-5%", "NaN%", "many", "-1", "5 percent", "50"} {
		if g, err := ParseGrowth(bad); err == nil {
			t.Errorf("%q is %v", bad, g)
		}
	}
}
