package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/memestimate/memestimate/devices"
	"github.com/memestimate/memestimate/report"
)

// A traceResult is what a traced command came to.
type traceResult struct {
	Schema    string             `json:"schema"`
	Command   []string           `json:"command"`
	ExitCode  int                `json:"exit_code"`
	Seconds   float64            `json:"seconds"`
	Interval  float64            `json:"interval_seconds"`
	GPUs      []devices.GPUTrace `json:"gpus"`
	Predicted *prediction        `json:"predicted,omitempty"`
}

// A prediction is what a model's estimate said beforehand.
type prediction struct {
	Model      string `json:"model"`
	Device     int64  `json:"device_bytes"`
	Likely     int64  `json:"likely_bytes"`
	Safe       int64  `json:"safe_bytes"`
	UpperBound int64  `json:"upper_bound_bytes"`
}

// text sets the prediction beside the highest that was measured.
func (p *prediction) text(w io.Writer, gpus []devices.GPUTrace) {
	fmt.Fprintf(w, "predicted for %s: %s, %s safe", report.Show(p.Model, 60), report.Size(p.Device),
		report.Size(p.Safe))
	measured := int64(0)
	for _, g := range gpus {
		measured = max(measured, int64(g.Peak)-int64(g.Start))
	}
	if measured > 0 {
		fmt.Fprintf(w, "; measured: %s, so the prediction is off by %+.2f %%", report.Size(measured),
			100*(float64(p.Device)/float64(measured)-1))
	}
	fmt.Fprintln(w)
}

// told is from how many bytes on the text tells of memory that others took.
const told = 16 << 20

// uncounted says what grew on the GPU beyond what was counted, or "".
func uncounted(g *devices.GPUTrace) string {
	if g.All == nil {
		return ""
	}
	grown, counted := g.All.Peak-min(g.All.Start, g.All.Peak), g.Peak-min(g.Start, g.Peak)
	if grown < counted+told {
		return ""
	}
	s := fmt.Sprintf("%s as a whole reached %s, %s above its start", g.Label, report.Size(int64(g.All.Peak)),
		report.Size(int64(grown)))
	var who []string
	for i, o := range g.All.Others {
		if o.Bytes < told || i == listed {
			break
		}
		who = append(who, fmt.Sprintf("process %d (%s)", o.PID, report.Size(int64(o.Bytes))))
	}
	if len(who) == 0 {
		return s + "; the driver does not say whose the rest was"
	}
	return s + "; not counted, for this command did not start it: " + strings.Join(who, ", ")
}

func (r *traceResult) write(w io.Writer, e *env, o *output) error {
	switch o.format {
	case "json":
		var b strings.Builder
		if err := report.JSON(&b, r); err != nil {
			return err
		}
		_, err := io.WriteString(w, asciiJSON(b.String())) // to a terminal, as a rule
		return err
	case "csv":
		return r.points().CSV(w)
	}
	width := 0
	if o.file == "" {
		width = columns(e, e.stderr) // where it goes
	}
	var b strings.Builder
	r.text(&b, e, width)
	_, err := io.WriteString(w, report.Fold(b.String(), width))
	return err
}

// points are the timelines, a row a point.
func (r *traceResult) points() *report.Grid {
	g := &report.Grid{Columns: []report.Column{{Title: "seconds"}, {Title: "gpu"}, {Title: "uuid"}, {Title: "by"},
		{Title: "used_bytes"}}}
	for _, t := range r.GPUs {
		for _, p := range t.Timeline {
			g.Rows = append(g.Rows, []string{strconv.FormatFloat(p.At.Seconds(), 'f', 3, 64),
				strings.TrimPrefix(t.Label, "GPU "), t.UUID, t.By, strconv.FormatUint(p.Used, 10)})
		}
	}
	return g
}

// sparkWidth is how many characters a course is drawn with.
const sparkWidth = 40

func (r *traceResult) text(w io.Writer, e *env, width int) {
	how := "by process"
	if !slices.ContainsFunc(r.GPUs, func(g devices.GPUTrace) bool { return g.By == devices.ByProcess }) {
		how = "by device: the driver did not name the command's processes, so what others use counts too"
	}
	fmt.Fprintf(w, "memestimate: %s: exit code %d after %.1f s; sampled every %v, %s\n",
		quoteArg(filepath.Base(r.Command[0])), r.ExitCode, r.Seconds,
		time.Duration(r.Interval*float64(time.Second)).Round(time.Millisecond), how)
	g := &report.Grid{Columns: []report.Column{{Title: "GPU"}, {Title: "Name", Code: true},
		{Title: "△Used MiB", Right: true}, {Title: "Peaked MiB", Right: true}, {Title: "Peak at", Right: true},
		{Title: "Samples", Right: true}, {Title: "Course"}}}
	blocks := []rune("▁▂▃▄▅▆▇█")
	if !isUTF8(e) {
		g.Columns[2].Title, blocks = "dUsed MiB", []rune("_.:-=+*#")
	}
	for _, t := range r.GPUs {
		course := sparkline(t.Timeline, t.Start, t.Peak, blocks)
		if t.Error != "" {
			course += " " + t.Error
		}
		g.Rows = append(g.Rows, []string{strings.TrimPrefix(t.Label, "GPU "), printable(t.Name), report.Count(t.Used / (1 << 20)),
			report.Count(t.Peaked >> 20), fmt.Sprintf("%.2f s", t.PeakAt.Seconds()), report.Count(int64(t.Samples)), course})
	}
	g.Text(w, width)
	for i := range r.GPUs {
		if s := uncounted(&r.GPUs[i]); s != "" {
			fmt.Fprintln(w, s)
		}
	}
	if r.Predicted != nil {
		r.Predicted.text(w, r.GPUs)
	}
}

// sparkline draws a course between its start, or its least, and its peak.
func sparkline(points []devices.Point, start, peak uint64, blocks []rune) string {
	n := min(len(points), sparkWidth)
	line := make([]rune, n)
	least := start
	for _, p := range points {
		least = min(least, p.Used)
	}
	for i := range line {
		highest := uint64(0)
		for _, p := range points[i*len(points)/n : max((i+1)*len(points)/n, i*len(points)/n+1)] {
			highest = max(highest, p.Used)
		}
		level := 0
		if peak > least {
			level = int(float64(highest-least) / float64(peak-least) * float64(len(blocks)-1))
		}
		line[i] = blocks[level]
	}
	return string(line)
}
