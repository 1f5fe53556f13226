// Package page draws timelines as one HTML page that needs nothing else: no
// network, no other file. It treats predicted and measured timelines alike, one
// alone or two over each other.
//
// Names from files reach the page as escaped text and as JSON that no parser
// takes for markup; a content security policy lets only the page's own two
// scripts run.
package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A Page is what to draw.
type Page struct {
	Title    string
	Subtitle string    // what was asked; may be empty
	Verdicts []Verdict // whether it fits what it was held against
	Facts    []Fact    // what to know first, in their order
	Notes    []string
	Runs     []Run  // one, or a prediction and a measurement; none is a page without their picture
	Chart    *Chart // of other settings; may be nil
	Curve    *Curve // of batch sizes; may be nil
	Tables   []Table
}

// A Verdict is an answer of yes or no.
type Verdict struct {
	Good bool
	Text string
}

// A Table is a grid with a heading. Cells of right-hand columns that end in " B"
// are whole bytes, shown for people and sorted by their number.
type Table struct {
	Title string
	Grid  *report.Grid

	layers []string // of the timeline, one for each row; nil where the rows are of none
}

// A Fact is a line of the page's head.
type Fact struct {
	Name, Value string
	About       string // what the value can be checked with; may be empty
}

// A Run is a timeline with what an allocator made of it.
type Run struct {
	Name     string // "predicted", "measured", a file
	Timeline *timeline.Source

	// Allocated and Reserved are the peaks by the allocator's count, in bytes; 0
	// where no allocator was asked.
	Allocated, Reserved int64
	// Capacity is what the device has for the allocator, a line across the picture; 0 where it is not known.
	Capacity Capacity
	// Failure is the request that the run ended with, after its last event; nil where it survived.
	Failure *Failure
	// About says in lines what a block is; may be nil.
	About func(block int32) []string
	// Modules say what the model knows of the layers, by their names in the timeline; nil for a recording.
	Modules map[string]Module
	// Levels are what was reserved from an event on, by increasing event; may be empty.
	Levels []Level
	// Segments are the allocator's at the end of the run; may be empty.
	Segments []Segment
	// Trace is what a recording knows beyond its timeline; nil for a prediction.
	// Levels then have the numbers of the recording's events.
	Trace *Trace
	// Inferred says that categories and phases are not the program's own words.
	Inferred bool
}

// A Capacity is a number of bytes that cannot be exceeded.
type Capacity struct {
	Bytes int64  `json:"bytes"`
	Name  string `json:"name"` // of what has it
}

// A Failure is a request that could not be served.
type Failure struct {
	Bytes int64  `json:"bytes"`
	Text  string `json:"text"` // of the moment
}

// A Module is what a model says of a layer, as people write it. Sizes are bytes.
type Module struct {
	Operator, Output string
	Parameters       int64 // how many
	Saved            int64
}

// A Level is a number of bytes from an event of the timeline on.
type Level struct {
	Event int
	Bytes int64
}

// A Segment is a piece of reserved memory.
type Segment struct {
	Addr   int64   `json:"addr"`
	Bytes  int64   `json:"bytes"`
	Kind   string  `json:"kind"` // "small", "large", "expandable"
	Blocks []Block `json:"blocks"`
}

// A Block is a part of a segment.
type Block struct {
	Bytes int64  `json:"bytes"`
	Used  bool   `json:"used"`
	Label string `json:"label"` // what it belongs to; may be empty
}

//go:embed page.css
var pageCSS string

// The page's own script, in the order in which its parts need each other.
var (
	//go:embed words.js
	wordsJS string // sizes in words, tables that sort, colours: all that a page without runs has
	//go:embed runs.js
	runsJS string // what each event does to each run
	//go:embed bands.js
	bandsJS string // colours, and the picture of the allocations
	//go:embed plot.js
	plotJS string // axes, lines, marks
	//go:embed move.js
	moveJS string // moving about, by pointer, wheel and keys
	//go:embed moment.js
	momentJS string // what is live at the event that is held, legend, search
	//go:embed trace.js
	traceJS string // what a recording knows beyond its timeline
	//go:embed start.js
	startJS string
)

// pageJS puts these files into one scope, when the first page is written.
var pageJS = sync.OnceValue(func() string {
	return "'use strict';\n(() => {\n" + wordsJS + runsJS + bandsJS + plotJS + moveJS + momentJS + traceJS + startJS +
		"})();\n"
})

// uPlot 1.6.32, of https://github.com/leeoniya/uPlot, under the MIT licence in uplot/LICENSE.
//
//go:embed uplot/uPlot.iife.min.js
var uplotJS string

//go:embed uplot/uPlot.min.css
var uplotCSS string

// maxRows bounds a table's rows, and nameLimit the bytes of a name: a page is to
// be read, not searched for the last of a million layers.
const (
	maxRows   = 5000
	nameLimit = 200
)

// Write writes the page. Where it fails, part of the page may be written.
func Write(w io.Writer, p *Page) error {
	d, err := dataOf(p)
	if err != nil {
		return err
	}
	if _, err = p.markup().WriteTo(w); err == nil {
		err = writeData(w, d)
	}
	if err == nil {
		_, err = p.scripts().WriteTo(w)
	}
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// writeData writes the data as an element that no browser runs, as it is encoded: the text of a large run is several
// times as large as the run. Package v1 has <, > and & written as \u003c and so on, so that it cannot end early, and
// nothing in it is markup.
func writeData(w io.Writer, d *data) error {
	if _, err := io.WriteString(w, `<script type="application/json" id="data">`); err != nil {
		return err
	}
	if err := json.MarshalWrite(w, d, jsonv1.DefaultOptionsV1()); err != nil {
		return err
	}
	_, err := io.WriteString(w, "</script>\n")
	return err
}

// Sources returns what the content security policy of a page allows as style and as scripts. A page that shows one in
// a frame has to allow the same.
func Sources() (styles, scripts string) {
	return Hash(uplotCSS + pageCSS), Hash(uplotJS) + " " + Hash(pageJS())
}

// Hash is a source of a content security policy: exactly this text.
func Hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func clean(s string) string { return report.Clean(s) }

// show makes a name from a file safe to look at: no control characters, nothing
// that turns the direction of writing.
func show(name string) string { return report.Show(name, nameLimit) }
