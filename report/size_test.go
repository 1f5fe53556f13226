package report

import (
	"math"
	"testing"
)

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1.00 KiB", -2048: "-2.00 KiB",
		102228128: "97.49 MiB", 1<<20 - 1: "1.00 MiB", 1 << 30: "1.00 GiB", math.MaxInt64: "8.00 EiB",
	} {
		if got := Size(n); got != want {
			t.Errorf("Size(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567",
		math.MinInt64: "-9,223,372,036,854,775,808"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestChange(t *testing.T) {
	u := sizeUnit{"MiB", 1 << 20}
	for n, want := range map[int64]string{0: "0.00", -100: "0.00", 100: "0.00", 1 << 20: "+1.00", -5 << 30: "-5,120.00"} {
		if got := u.change(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
