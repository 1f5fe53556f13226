package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/cmd/memestimate/inherited"
	"github.com/memestimate/memestimate/devices"
	"github.com/memestimate/memestimate/report"
)

// A tracing is a trace command as the command line describes it.
type tracing struct {
	model    subject
	gpus     gpuSource
	out      output
	interval time.Duration
}

// settleLimit is how long after a command's end its memory may take to go.
const settleLimit = 2 * time.Second

// traceCommand runs a command and reports the GPU memory that it used.
func traceCommand(e *env) *cobra.Command {
	var t tracing
	cmd := &cobra.Command{
		Use:   "trace [MODEL] [flags] -- COMMAND [ARG]...",
		Short: "Used and peaked GPU memory of a command",
		Long: `Trace runs a command and samples the memory that it and the programs it starts take on each GPU. It then says by how
much used memory grew from before the start to after the end (△Used; what a finished process leaves behind, 0 as a rule),
how far it peaked beyond that (Peaked), and draws the course.

Memory is counted by process where the driver names the command's processes, and as all that the GPU has used where it
does not: in a container, and under some virtualization. The report says which. What is shorter than the interval can be missed.
With a MODEL, whose settings are the command's, it prints what was predicted beside it.

The report goes to stderr, or to --output, for stdout is the command's. The exit code is the command's too: 128+n when signal
n ended it, 125 when the GPUs cannot be watched, 126 when the command cannot be started, 127 when there is none. Signals
are passed on to the command.`,
		Example: `  memestimate trace -- python train.py --steps 3
  memestimate trace --format json --output trace.json -- python train.py
  memestimate trace resnet50 --batch 64 -- python train.py
  memestimate run --need 20GiB -- memestimate trace -- python train.py`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.run(e, cmd, args)
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return flagFailure(cmd, exitLauncher, "trace: ", err)
	})
	t.gpus.flags(cmd.Flags())
	t.model.flags(cmd.Flags())
	t.out.flags(cmd.Flags(), "text", "json", "csv")
	cmd.Flags().DurationVar(&t.interval, "interval", 20*time.Millisecond, "time between two samples")
	return cmd
}

func (t *tracing) run(e *env, cmd *cobra.Command, args []string) error {
	args, usage := t.check(cmd, args)
	if usage != nil {
		usage.code = exitLauncher
		return usage
	}
	var predicted *prediction
	if t.model.arg != "" {
		r, err := t.model.estimate(e, cmd.CommandPath(), 0)
		if x, ok := errors.AsType[*exitError](err); ok {
			x.code = exitLauncher
		}
		if err != nil {
			return err
		}
		predicted = &prediction{r.Model.Name, r.Peak.Device, r.Peak.UpperBound}
	}
	path, err := lookCommand(args[0], e.getenv("PATH"))
	if err != nil {
		return err
	}
	session, err := t.gpus.open()
	if err != nil {
		if failed, ok := errors.AsType[*exitError](err); ok {
			failed.code = exitLauncher
		}
		return err
	}
	defer session.Close()
	ds, err := session.List()
	if err != nil {
		return fail(exitLauncher, "trace: %w", err)
	}
	result, err := t.watch(e, session, watchable(e, ds), path, args)
	if err != nil {
		return err
	}
	result.Predicted = predicted
	var text bytes.Buffer
	if err := result.write(&text, e, &t.out); err != nil {
		return err
	}
	if t.out.file == "" {
		e.stderr.Write(text.Bytes()) // where else could one say that this failed
	} else if err := t.out.write(e, func(w io.Writer) error { _, err := w.Write(text.Bytes()); return err }); err != nil {
		tell(e.stderr, err)
		if result.ExitCode == 0 {
			return &exitError{code: exitOutput}
		}
	}
	if result.ExitCode != 0 {
		return &exitError{code: result.ExitCode}
	}
	return nil
}

// check reads the command line and returns the command.
func (t *tracing) check(cmd *cobra.Command, args []string) ([]string, *exitError) {
	args, usage := t.model.take("trace", cmd.UseLine(), args, cmd.ArgsLenAtDash())
	switch {
	case usage != nil:
		return nil, usage
	case len(args) == 0:
		return nil, t.model.missing("trace", cmd.UseLine())
	case t.interval < time.Millisecond:
		return nil, usagef("trace: --interval %v: want at least 1ms", t.interval)
	case t.model.arg == "" && modelFlag(cmd, false) != "":
		return nil, usagef("trace: --%s goes with a MODEL", modelFlag(cmd, false))
	}
	reads := []source{fileSource(t.model.settings.run.profile)}
	if t.model.arg != "" {
		reads = append(reads, resolve(t.model.arg))
	}
	if err := t.out.check(reads...); err != nil {
		return nil, usagef("trace: %w", err)
	}
	return args, nil
}

// watchable returns the devices that the command can see and whose memory is known.
func watchable(e *env, ds []devices.Device) []devices.Device {
	visible := devices.Visible{All: true}
	if v := visibleDevices(e); v != nil {
		visible = devices.ParseVisible(*v, ds, pciOrder(e))
		tellVisible(e, ds)
	}
	var out []devices.Device
	for _, i := range visible.Order(ds) {
		if ds[i].HasMemory && ds[i].MIG != devices.MIGParent {
			out = append(out, ds[i])
		}
	}
	return out
}

// watch runs the command and samples until it ends. An error means that it did not start.
func (t *tracing) watch(e *env, session *devices.Session, ds []devices.Device, path string,
	args []string) (*traceResult, error) {
	w := session.Watch(ds)
	forward := forwardSignals()
	defer forward.stop()
	begun := time.Now()
	child, err := startCommand(path, args, []*os.File{stream(e.stdin, 0), stream(e.stdout, 1), stream(e.stderr, 2)})
	if err != nil {
		code := exitCannot
		if errors.Is(err, os.ErrNotExist) {
			code = exitMissing
		}
		return nil, fail(code, "%s: cannot be run: %w", quoteArg(args[0]), cause(err))
	}
	w.Started()
	forward.to(child)
	var ending *os.ProcessState
	ended := make(chan struct{})
	go func() {
		ending, _ = child.Wait()
		close(ended)
	}()
	buried := time.Now()
	tick := time.NewTicker(t.interval)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-tick.C:
			w.Sample()
			if time.Since(buried) > time.Second {
				bury(child.Pid)
				buried = time.Now()
			}
		case <-ended:
			running = false
		}
	}
	r := &traceResult{Schema: traceForm, Command: args, ExitCode: exitCodeOf(ending),
		Seconds: time.Since(begun).Seconds(), Interval: t.interval.Seconds(), by: "device"}
	w.Settle(settleLimit)
	r.take(w.Traces())
	return r, nil
}

// stream returns the file that a standard stream is, or nil when it was closed.
func stream(s any, fd int) *os.File {
	f, ok := s.(*os.File)
	if !ok || inherited.Closed(fd) {
		return nil
	}
	return f
}

// A traceResult is what a traced command came to.
type traceResult struct {
	Schema    string      `json:"schema"`
	Command   []string    `json:"command"`
	ExitCode  int         `json:"exit_code"`
	Seconds   float64     `json:"seconds"`
	Interval  float64     `json:"interval_seconds"`
	GPUs      []gpuTrace  `json:"gpus"`
	Predicted *prediction `json:"predicted,omitempty"`
	by        string
}

// A prediction is what a model's estimate said beforehand.
type prediction struct {
	Model      string `json:"model"`
	Device     int64  `json:"device_bytes"`
	UpperBound int64  `json:"upper_bound_bytes"`
}

// text sets the prediction beside the highest that was measured.
func (p *prediction) text(w io.Writer, gpus []gpuTrace) {
	fmt.Fprintf(w, "predicted for %s: %s, at most %s", report.Show(p.Model, 60), report.Size(p.Device),
		report.Size(p.UpperBound))
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

type gpuTrace struct {
	Index    int          `json:"index"`
	UUID     string       `json:"uuid"`
	Name     string       `json:"name"`
	By       string       `json:"by"` // "process" or "device"
	Start    uint64       `json:"start_bytes"`
	End      uint64       `json:"end_bytes"`
	Peak     uint64       `json:"peak_bytes"`
	PeakAt   float64      `json:"peak_seconds"`
	Used     int64        `json:"used_bytes"` // delta
	Peaked   int64        `json:"peaked_bytes"`
	Samples  int          `json:"samples"`
	All      *allOfGPU    `json:"all_processes,omitempty"` // when by process
	Error    string       `json:"error,omitempty"`
	Timeline []tracePoint `json:"timeline"`
	label    string
}

// An allOfGPU is what all processes of a GPU had while a trace counted the command's alone.
type allOfGPU struct {
	Start  uint64         `json:"start_bytes"`
	Peak   uint64         `json:"peak_bytes"`
	Others []otherProcess `json:"not_counted"`
}

// An otherProcess is one that took memory meanwhile and is not the command's.
type otherProcess struct {
	PID   int    `json:"pid"`
	Bytes uint64 `json:"grown_bytes"`
}

// told is from how many bytes on the text tells of memory that others took.
const told = 16 << 20

// uncounted says what grew on the GPU beyond what was counted, or "".
func (g *gpuTrace) uncounted() string {
	if g.All == nil {
		return ""
	}
	grown, counted := g.All.Peak-min(g.All.Start, g.All.Peak), g.Peak-min(g.Start, g.Peak)
	if grown < counted+told {
		return ""
	}
	s := fmt.Sprintf("GPU %s as a whole reached %s, %s above its start", g.label, report.Size(int64(g.All.Peak)),
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

type tracePoint struct {
	At   float64 `json:"seconds"`
	Used uint64  `json:"used_bytes"`
}

func (r *traceResult) take(traces []devices.GPUTrace) {
	r.GPUs = make([]gpuTrace, 0, len(traces))
	for _, t := range traces {
		g := gpuTrace{
			Index: t.Device.Index, UUID: t.Device.UUID, Name: t.Device.Name, By: "device", Start: t.Start, End: t.End, Peak: t.Peak, PeakAt: t.PeakAt.Seconds(),
			Used: t.Used, Peaked: t.Peaked, Samples: t.Samples, Timeline: make([]tracePoint, 0,
				len(t.Timeline)), label: strings.TrimPrefix(t.Device.Label(), "GPU "),
		}
		if t.ByProcess {
			g.By, r.by = "process", "process"
		}
		if t.ByProcess {
			g.All = &allOfGPU{t.AllStart, t.AllPeak, make([]otherProcess, 0, len(t.Others))}
			for _, p := range t.Others {
				g.All.Others = append(g.All.Others, otherProcess{p.PID, p.Bytes})
			}
		}
		if t.Err != nil {
			g.Error = t.Err.Error()
		}
		for _, p := range t.Timeline {
			g.Timeline = append(g.Timeline, tracePoint{p.At.Seconds(), p.Used})
		}
		r.GPUs = append(r.GPUs, g)
	}
}

func (r *traceResult) write(w io.Writer, e *env, o *output) error {
	switch o.format {
	case "json":
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetIndent("", "  ")
		if err := enc.Encode(r); err != nil {
			return err
		}
		_, err := io.WriteString(w, asciiJSON(b.String())) // to a terminal, as a rule
		return err
	case "csv":
		return r.csv(w)
	}
	width := 0
	if o.file == "" {
		width = columns(e, e.stderr) // where it goes
	}
	var b strings.Builder
	if err := r.text(&b, e, width); err != nil {
		return err
	}
	_, err := io.WriteString(w, report.Fold(b.String(), width))
	return err
}

// csv writes the timelines, a row a point.
func (r *traceResult) csv(w io.Writer) error {
	c := csv.NewWriter(w)
	c.Write([]string{"seconds", "gpu", "uuid", "by", "used_bytes"}) // Flush and Error tell
	for _, g := range r.GPUs {
		for _, p := range g.Timeline {
			c.Write([]string{strconv.FormatFloat(p.At, 'f', 3, 64), g.label, g.UUID, g.By, strconv.FormatUint(p.Used, 10)})
		}
	}
	c.Flush()
	return c.Error()
}

// sparkWidth is how many characters a course is drawn with.
const sparkWidth = 40

func (r *traceResult) text(w io.Writer, e *env, width int) error {
	how := "by process"
	if r.by == "device" {
		how = "by device: the driver did not name the command's processes, so what others use counts too"
	}
	fmt.Fprintf(w, "memestimate: %s: exit code %d after %.1f s; sampled every %v, %s\n",
		quoteArg(filepath.Base(r.Command[0])), r.ExitCode, r.Seconds,
		time.Duration(r.Interval*float64(time.Second)).Round(time.Millisecond), how)
	g := &report.Grid{Columns: []report.Column{
		{Title: "GPU"}, {Title: "Name"}, {Title: "△Used MiB", Right: true}, {Title: "Peaked MiB",
			Right: true}, {Title: "Peak at", Right: true}, {Title: "Samples", Right: true}, {Title: "Course"},
	}}
	blocks := []rune("▁▂▃▄▅▆▇█")
	if !utf8Locale(e) {
		g.Columns[2].Title, blocks = "dUsed MiB", []rune("_.:-=+*#")
	}
	for _, t := range r.GPUs {
		course := sparkline(t.Timeline, t.Start, t.Peak, blocks)
		if t.Error != "" {
			course += " " + t.Error
		}
		g.Rows = append(g.Rows, []string{t.label, printable(t.Name), report.Count(t.Used / (1 << 20)),
			report.Count(t.Peaked >> 20), fmt.Sprintf("%.2f s", t.PeakAt), report.Count(int64(t.Samples)), course})
	}
	if err := g.Text(w, width); err != nil {
		return err
	}
	for i := range r.GPUs {
		if s := r.GPUs[i].uncounted(); s != "" {
			fmt.Fprintln(w, s)
		}
	}
	if r.Predicted == nil {
		return nil
	}
	r.Predicted.text(w, r.GPUs)
	return nil
}

// sparkline draws a course between its start, or its least, and its peak.
func sparkline(points []tracePoint, start, peak uint64, blocks []rune) string {
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

// utf8Locale tells whether the terminal's characters are UTF-8, as the locale says.
func utf8Locale(e *env) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := e.getenv(name); v != "" {
			v = strings.ToUpper(v)
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return false
}
