package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// progressAfter is how long something may take in silence.
const progressAfter = time.Second

// A progress says on a terminal what the program is at, when that takes long.
type progress struct {
	e     *env
	w     io.Writer
	timer *time.Timer

	mu    sync.Mutex
	text  string
	shown bool
}

// startProgress begins to watch over a job. It does nothing when stderr is not a
// terminal, or one that cannot take a line back.
func startProgress(e *env, text string) *progress {
	p := &progress{e: e, w: e.stderr, text: text}
	if f, ok := e.stderr.(*os.File); !ok || !isTerminal(f) || e.getenv("TERM") == "dumb" {
		return p
	}
	p.timer = time.AfterFunc(progressAfter, p.show)
	return p
}

// oneTerminalLine cuts a text that is to be replaced later to one line of the terminal that stderr is: of more lines
// only the last one could be taken back.
func oneTerminalLine(e *env, text string) string {
	if room := columns(e, e.stderr) - 1; room > 20 && len(text) > room {
		return strings.ToValidUTF8(text[:room-3], "") + "..."
	}
	return text
}

func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.shown = true
		fmt.Fprintf(p.w, "\r%s\x1b[K", oneTerminalLine(p.e, "memestimate: "+p.text+" ..."))
	}
}

// now says what the job has come to. A nil progress says nothing.
func (p *progress) now(text string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.text = text
	shown := p.shown
	p.mu.Unlock()
	if shown {
		p.show()
	}
}

// done takes the line away.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if p.shown {
		p.shown = false
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
