package report

import (
	"cmp"
	"slices"
	"strconv"
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

// heavyGuess is the share of what is allocated at the peak from which on a guess has a place on the first screen: an
// answer that is further off than this is wrong.
const heavyGuess = 0.03

// heaviest returns the heaviest guess that could make the answer wrong, nil for none, and how many others could.
func (a *Answer) heaviest() (first *estimate.Guess, others int) {
	if a.Report.Peak == nil {
		return nil, 0
	}
	for i := range a.Report.Guesses { // the heaviest come first
		g := &a.Report.Guesses[i]
		switch {
		case !g.Weighed || float64(g.Weight()) < heavyGuess*float64(a.Report.Peak.Allocated):
		case first == nil:
			first = g
		default:
			others++
		}
	}
	return first, others
}

// guessed writes the heaviest guess, what it weighs and what decides it otherwise, or as much of that as there is room
// for. It returns how many lines it would take at least.
func (a *Answer) guessed(s *screen, room int) (lines int) {
	first, others := a.heaviest()
	if first == nil {
		return 0
	}
	unit := largeUnit(a.Report.Peak.Device)
	otherwise := unit.change(first.Bytes)
	if first.Fewer > 0 {
		otherwise = unit.change(-first.Fewer) + " to " + otherwise
	}
	text := first.Takes
	if !first.Made {
		text = "not made: " + text
	}
	text += "; otherwise " + otherwise + " " + unit.name
	texts := []string{text}
	if first.Assume != "" {
		text += ": --assume " + first.Assume
		texts = append(texts, text)
	}
	if others > 0 {
		texts = append(texts, text+" ("+strconv.Itoa(others)+" more with --full)")
	}
	before := len(s.lines)
	for _, text := range slices.Backward(texts) {
		s.lines = s.lines[:before]
		s.text("guess", text)
		if lines = len(s.lines) - before; lines <= room {
			return lines
		}
	}
	s.lines = s.lines[:before]
	return lines
}

// guessLeftOut says that the heaviest guess has no room beside so many other notes: whoever reads no more must know
// that there is one.
func guessLeftOut(others int) string {
	if others == 0 {
		return "the heaviest guess with --full"
	}
	return strconv.Itoa(others) + " more and the heaviest guess with --full"
}
