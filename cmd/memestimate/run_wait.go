package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/memestimate/memestimate/devices"
)

// waited says how long a wait lasted that a signal ended.
func waited(err error) string {
	if w, ok := errors.AsType[*devices.WaitError](err); ok {
		s := fmt.Sprintf(" after waiting %v", w.After.Round(100*time.Millisecond))
		if w.Last != nil {
			s += ": " + w.Last.Error()
		}
		return s
	}
	return ""
}

// A waitStatus shows how a wait goes: one line that changes on a terminal, otherwise a line
// at the start and one a minute.
type waitStatus struct {
	e     *env
	need  uint64
	shown bool
	next  time.Duration
}

func (s *waitStatus) show(w devices.Waiting) {
	text := fmt.Sprintf("waiting for a GPU with %s, %v so far", devices.FormatBytes(s.need), w.Since.Round(time.Second))
	switch {
	case w.Reason != nil:
		text += ": " + oneLine(w.Reason.Error())
	case w.Ahead == 1:
		text += ": one launcher in front"
	case w.Ahead > 1:
		text += fmt.Sprintf(": %d launchers in front", w.Ahead)
	}
	if f, ok := s.e.stderr.(*os.File); ok && isTerminal(f) && s.e.getenv("TERM") != "dumb" {
		fmt.Fprintf(s.e.stderr, "\r%s\x1b[K", oneTerminalLine(s.e, "memestimate: "+text))
		s.shown = true
		return
	}
	if w.Since >= s.next {
		fmt.Fprintf(s.e.stderr, "memestimate: %s\n", text)
		s.next = w.Since + time.Minute
	}
}

// clear takes the line on the terminal away.
func (s *waitStatus) clear() {
	if s.shown {
		fmt.Fprint(s.e.stderr, "\r\x1b[K")
	}
}
