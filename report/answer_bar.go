package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate"
)

// pieces add up to the device memory, the largest first; fragmentation and context come last.
func pieces(r *estimate.Report) (out []piece) {
	var beyond []piece
	for _, p := range parts(r) {
		switch {
		case p.sum || p.bytes <= 0:
		case p.what == "fragmentation" || p.what == "context":
			beyond = append(beyond, piece{p.what, p.bytes})
		default:
			out = append(out, piece{p.what, p.bytes})
		}
	}
	slices.SortStableFunc(out, func(a, b piece) int { return cmp.Compare(b.bytes, a.bytes) })
	small := int64(0)
	out = slices.DeleteFunc(out, func(p piece) bool {
		if p.bytes*200 < r.Peak.Device {
			small += p.bytes
			return true
		}
		return false
	})
	if small > 0 {
		out = append(out, piece{"other", small})
	}
	return append(out, beyond...)
}

// bar draws what holds the memory at the peak, and names it.
func (a *Answer) bar(s *screen) {
	all, unit := pieces(a.Report), largeUnit(a.Report.Peak.Safe)
	cells := shares(all, min(s.Width, 80))
	var bar strings.Builder
	var legend []string
	for i, p := range all {
		mark, full := s.marks(p.what)
		bar.WriteString(s.paint(colours[p.what], strings.Repeat(full, cells[i])))
		if size := unit.format(p.bytes); size != "0.00" {
			legend = append(legend, s.paint(colours[p.what], mark)+" "+p.what+" "+size)
		}
	}
	s.gap()
	s.line(bar.String())
	s.flow("", legend, "  ")
}

// marks returns what stands before the name of a category, and what its part of the bar is made of.
func (s *screen) marks(what string) (mark, full string) {
	if s.Colour && !s.ASCII {
		if what == "fragmentation" || what == "context" {
			return "▒", "▒"
		}
		return "■", "█"
	}
	letter, ok := letters[what]
	if !ok {
		letter = "."
	}
	return letter, letter
}

// shares divides so many cells by size: what rounding leaves goes to the pieces that lost most by it.
func shares(all []piece, cells int) []int {
	total := int64(0)
	for _, p := range all {
		total += p.bytes
	}
	out, order, left := make([]int, len(all)), make([]int, len(all)), cells
	rest := make([]float64, len(all))
	for i, p := range all {
		exact := float64(p.bytes) / float64(max(total, 1)) * float64(cells)
		out[i] = int(exact)
		rest[i], order[i] = exact-float64(out[i]), i
		left -= out[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for _, i := range order[:min(left, len(order))] {
		out[i]++
	}
	return out
}

// A piece is what holds a part of the device memory at the peak.
type piece struct {
	what  string
	bytes int64
}
