package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units are the binary units of sizes, each 1024 times the one before.
var units = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// Size writes a number of bytes for people: "97.49 MiB". Whole bytes below 1 KiB have no fraction. go-humanize keeps
// one decimal of small numbers, none of others, and rounds up to the next unit without changing to it: "3.0 GiB" for
// 2.96, "98 MiB", "1024 KiB".
func Size(bytes int64) string {
	if -1024 < bytes && bytes < 1024 {
		return fmt.Sprintf("%d B", bytes)
	}
	u, scale := 1, 1024.0
	for u+1 < len(units) && math.Abs(float64(bytes)) >= 1023.995*scale { // which would print as 1024.00
		u, scale = u+1, scale*1024
	}
	return fmt.Sprintf("%.2f %s", float64(bytes)/scale, units[u])
}

// A column of sizes has one unit, so that its numbers can be compared and added by eye.
type sizeUnit struct {
	name  string
	scale float64
}

// most returns the largest figure of some items.
func most[T any](items []T, of func(*T) int64) (n int64) {
	for i := range items {
		n = max(n, of(&items[i]))
	}
	return n
}

// unitFor returns the unit in which a column with this largest value is written: at most
// MiB, which graphics drivers speak too.
func unitFor(largest int64) sizeUnit {
	switch {
	case largest >= 1<<20:
		return sizeUnit{"MiB", 1 << 20}
	case largest >= 1<<10:
		return sizeUnit{"KiB", 1 << 10}
	}
	return sizeUnit{"B", 1}
}

// largeUnit is the one unit of sizes of whole runs, as their headlines have it: GiB, or what unitFor says where there
// is less than one GiB in all.
func largeUnit(largest int64) sizeUnit {
	if largest >= 1<<30 {
		return sizeUnit{"GiB", 1 << 30}
	}
	return unitFor(largest)
}

func (u sizeUnit) format(bytes int64) string {
	if u.scale == 1 {
		return Count(bytes)
	}
	s := strconv.FormatFloat(float64(bytes)/u.scale, 'f', 2, 64)
	whole, fraction, _ := strings.Cut(s, ".")
	return groupDigits(whole) + "." + fraction
}

// change writes a difference with its sign, and one that rounds to nothing without.
func (u sizeUnit) change(bytes int64) string {
	text := strings.TrimPrefix(u.format(bytes), "-")
	switch {
	case strings.Trim(text, "0.") == "":
		return text
	case bytes < 0:
		return "-" + text
	}
	return "+" + text
}

// Count writes a number with its thousands apart: "25,557,032".
func Count(n int64) string { return groupDigits(strconv.FormatInt(n, 10)) }

func groupDigits(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}
