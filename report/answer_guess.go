package report

import (
	"slices"
	"strconv"

	"github.com/memestimate/memestimate/estimate"
)

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
