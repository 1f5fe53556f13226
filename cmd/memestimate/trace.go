package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/cmd/memestimate/inherited"
	"github.com/memestimate/memestimate/devices"
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
		Long: `Trace runs a command and samples the memory that it and the programs it starts take on each GPU. It
then says by how much used memory grew from before the start to after the end (△Used; what a
finished process leaves behind, 0 as a rule), how far it peaked beyond that (Peaked), and draws the
course.

Memory is counted by process where the driver names the command's processes, and as all that the GPU
has used where it does not: in a container, and under some virtualization. The report says which.
What is shorter than the interval can be missed. With a MODEL, whose settings are the command's, it
prints what was predicted beside it.

The report goes to stderr, or to --output, for stdout is the command's. The exit code is the
command's too: 128+n when signal n ended it, 125 when the GPUs cannot be watched, 126 when the
command cannot be started, 127 when there is none. Signals are passed on to the command.`,
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
	t.interval = 20 * time.Millisecond
	addFlags(cmd.Flags(), []flagRow{{"interval", 0, &t.interval, "time between two samples"}})
	return cmd
}

func (t *tracing) run(e *env, cmd *cobra.Command, args []string) error {
	args, err := t.check(cmd, args)
	if err != nil {
		return launching(err)
	}
	var predicted *prediction
	if t.model.arg != "" {
		r, err := t.model.estimate(e, cmd.CommandPath())
		if err != nil {
			return launching(err)
		}
		predicted = &prediction{r.Model.Name, r.Peak.Device, r.Peak.Likely, r.Peak.Safe, r.Peak.UpperBound}
	}
	path, err := lookCommand(args[0], e.getenv("PATH"))
	if err != nil {
		return err
	}
	session, err := t.gpus.open()
	if err != nil {
		return launching(err)
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
func (t *tracing) check(cmd *cobra.Command, args []string) ([]string, error) {
	args, usage := t.model.take("trace", cmd.UseLine(), args, cmd.ArgsLenAtDash())
	switch {
	case usage != nil:
		return nil, usage
	case len(args) == 0:
		return nil, t.model.missing("trace", cmd.UseLine())
	case t.interval < time.Millisecond:
		return nil, usagef("trace: --interval %v: want at least 1ms", t.interval)
	case t.model.arg == "" && modelFlag(cmd) != "":
		return nil, usagef("trace: --%s goes with a MODEL", modelFlag(cmd))
	}
	var reads []source
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
		Seconds: time.Since(begun).Seconds(), Interval: t.interval.Seconds()}
	w.Settle(settleLimit)
	r.GPUs = w.Traces()
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
