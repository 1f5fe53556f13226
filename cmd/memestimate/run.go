package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/devices"
	"github.com/memestimate/memestimate/report"
)

// Exit codes of run and trace beside those of the command, as env(1) and timeout(1) have them.
const (
	exitTimeout  = 124 // no GPU came free in time
	exitLauncher = 125 // something went wrong before the command started
	exitCannot   = 126 // the command is there and cannot be started
	exitMissing  = 127 // there is no such command
	exitSignal   = 128 // plus the number of the signal that ended it
)

// A launch is a run command as the command line describes it.
type launch struct {
	model   subject
	gpus    gpuSource
	choice  choice
	wait    waiting
	print   bool
	format  string
	verbose bool
}

// runCommand picks GPUs, holds them and becomes a command that sees them alone.
func runCommand(e *env) *cobra.Command {
	var l launch
	cmd := &cobra.Command{
		Use:   "run [MODEL] [flags] -- COMMAND [ARG]...",
		Short: "Pick a GPU that fits, hold it, run a command on it",
		Long: `Run picks a GPU with the memory needed, which --need or the estimate of a MODEL says, reserves it,
sets CUDA_VISIBLE_DEVICES to its UUID and becomes the command: signals, terminal and exit code are
the command's own. The reservation ends with the command, however it ends, and counts for every
launcher that shares the state directory, also of other users and in containers.

A GPU that is held is not offered again, unless both sides give --share and both fit. An existing
CUDA_VISIBLE_DEVICES is narrowed, never widened. With --wait launchers queue, first come, first
served.

Exit codes: the command's own; 124 when --wait=TIMEOUT ran out; 125 when anything else goes wrong
before the command starts, 126 when the command cannot be started, 127 when there is none; 128+n
when signal n ends it. With --print, which only asks, the codes of the other commands: 0 yes, 1 no,
2 usage, 4 device.`,
		Example: `  memestimate run --need 20GiB -- python train.py
  memestimate run --need 20GiB -n 2 --wait=2h -- torchrun --nproc-per-node 2 train.py
  memestimate run resnet50 --batch 64 -- python train.py`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return l.run(e, cmd, args)
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return flagFailure(cmd, exitLauncher, "run: ", err)
	})
	fs := cmd.Flags()
	l.choice.flags(fs)
	l.model.needFlags(fs)
	l.format = "text"
	addFlags(fs, []flagRow{
		{"wait", 0, waitFlag(&l.wait), "wait until the GPUs are free, at most for this time (90s, 30m; forever without one)"},
		{"print", 0, &l.print, "say what would be chosen now, and neither hold nor run anything"},
		{"format f", 0, &l.format, "form of --print: text, json"},
		{"verbose v", 0, &l.verbose, "say on stderr what was chosen and where it is reserved"},
	})
	fs.Lookup("wait").NoOptDefVal = "forever"
	l.gpus.flags(fs)
	return cmd
}

// run carries the command out. When it returns nil the answer was printed; otherwise the process has become the
// command, or the error says why not.
func (l *launch) run(e *env, cmd *cobra.Command, args []string) error {
	request, command, err := l.check(e, cmd, args)
	switch {
	case err != nil && l.print:
		return err
	case err != nil:
		return launching(err)
	case l.print:
		return l.answer(e, request)
	}
	path, err := lookCommand(command[0], e.getenv("PATH"))
	if err != nil {
		return err
	}
	return launching(l.hold(cmd.Context(), e, request, path, command))
}

// launching gives an error from before a command's start the exit code for that.
func launching(err error) error {
	if x, ok := errors.AsType[*exitError](err); ok && x.code < exitTimeout {
		x.code = exitLauncher
	}
	return err
}

// check reads the command line.
func (l *launch) check(e *env, cmd *cobra.Command, args []string) (devices.Request, []string, error) {
	r, err := l.choice.request(e)
	if err != nil {
		return r, nil, err
	}
	dash := cmd.ArgsLenAtDash()
	if l.wait.set && l.wait.timeout == 0 && len(args) > 0 && dash != 0 {
		if w, err := readWait(args[0]); err == nil { // --wait 30m: pflag leaves the time to the arguments
			args, dash, l.wait = args[1:], dash-1, w
		}
	}
	args, usage := l.model.take("run", cmd.UseLine(), args, dash)
	if usage != nil {
		return r, nil, usage
	}
	if len(args) == 0 && !l.print {
		return r, nil, l.model.missing("run", cmd.UseLine())
	}
	if l.format != "text" && l.format != "json" {
		return r, nil, usagef("run: format %q is unknown, want text, json", l.format)
	}
	switch {
	case l.print && l.wait.set:
		return r, nil, usagef("run: --print does not --wait")
	case l.print && l.verbose:
		return r, nil, usagef("run: --print says what would be chosen, and holds nothing for --verbose to tell of")
	case !l.print && cmd.Flags().Changed("format"):
		return r, nil, usagef("run: --format goes with --print")
	}
	r.Bytes, err = l.model.asked(e, cmd)
	r.Margin = l.model.margin
	return r, args, err
}

// open connects to the GPUs and to the reservations.
func (l *launch) open(e *env) (*devices.Session, *devices.State, error) {
	session, err := l.gpus.open()
	if err != nil {
		return nil, nil, err
	}
	state, err := l.gpus.state(e)
	if err != nil {
		session.Close()
		return nil, nil, fail(exitDevice, "run: %w",
			err).withHint("--state-dir or MEMESTIMATE_STATE_DIR names another directory")
	}
	return session, state, nil
}

// hold waits for the GPUs, holds them and becomes the command.
func (l *launch) hold(ctx context.Context, e *env, r devices.Request, path string, command []string) error {
	session, state, err := l.open(e)
	if err != nil {
		return err
	}
	keepIgnored(false)
	ctx, caught := catchSignals(ctx)
	status := &waitStatus{e: e, need: r.Bytes + r.Margin}
	var once sync.Once
	list := func() ([]devices.Device, error) {
		ds, err := l.choice.list(session)
		if err == nil {
			once.Do(func() { tellVisible(e, ds) })
		}
		return ds, err
	}
	h, err := state.Hold(ctx, list, devices.HoldRequest{
		Request: r, Command: filepath.Base(command[0]), Wait: l.wait.set, Timeout: l.wait.timeout, Status: status.show,
	})
	status.clear()
	if sig := caught(); sig != 0 { // from here on signals do what they do to any command
		if h != nil {
			h.Release()
		}
		return fail(exitSignal+sig, "run: ended by signal %d%s", sig, waited(err))
	}
	if err != nil {
		return l.explain(err)
	}
	session.Close()
	if l.verbose {
		l.tell(e, h, state)
	}
	if err := h.Inherit(); err != nil {
		h.Release()
		return fail(exitLauncher, "run: %w", err)
	}
	vars := append(devices.Environment(h.Devices), devices.HeldVariable+"="+h.ID)
	err = become(path, command, overlay(os.Environ(), vars))
	h.Release()
	return err
}

// explain gives an error of Hold its exit code.
func (l *launch) explain(err error) error {
	if errors.Is(err, devices.ErrTimeout) {
		return fail(exitTimeout, "run: %w", err)
	}
	x := fail(exitDevice, "run: %w", err)
	if no, ok := errors.AsType[*devices.NoFit](err); ok {
		x.code = exitNo
		if !l.print && !l.wait.set && no.Held() {
			return x.withHint("--wait waits for it")
		}
	}
	return x
}

// answer prints what would be chosen.
func (l *launch) answer(e *env, r devices.Request) error {
	session, state, err := l.open(e)
	if err != nil {
		return err
	}
	defer session.Close()
	ds, err := l.choice.list(session)
	if err != nil {
		return deviceError(err)
	}
	if err := state.Attach(ds); err != nil {
		return fail(exitDevice, "run: %w", err)
	}
	tellVisible(e, ds)
	chosen, err := devices.Choose(ds, r)
	if err != nil {
		return l.explain(err)
	}
	o := output{format: l.format}
	return o.write(e, func(w io.Writer) error {
		if l.format == "json" {
			return l.json(w, &r, chosen)
		}
		for i := range chosen {
			d := &chosen[i]
			fmt.Fprintf(w, "%s %s: %s available\n", d.Label(), printable(d.Name), devices.FormatBytes(d.Available()))
		}
		for _, v := range devices.Environment(chosen) {
			fmt.Fprintln(w, report.Clean(v))
		}
		return nil
	})
}

func (l *launch) json(w io.Writer, r *devices.Request, chosen []devices.Device) error {
	v := chosenJSON{Schema: runForm, Environment: map[string]string{}}
	for _, d := range chosen {
		v.Devices = append(v.Devices, chosenPart{UUID: d.UUID, Index: d.Index, Bytes: r.Bytes + r.Margin})
	}
	for _, s := range devices.Environment(chosen) {
		name, value, _ := strings.Cut(s, "=")
		v.Environment[name] = value
	}
	return report.JSON(w, v)
}

// tell says on stderr what was chosen.
func (l *launch) tell(e *env, h *devices.Hold, state *devices.State) {
	for i := range h.Devices {
		d := &h.Devices[i]
		fmt.Fprintf(e.stderr, "memestimate: %s %s %s: %s of %s available, %s reserved in %s\n", d.Label(), printable(d.Name),
			printable(d.UUID),
			devices.FormatBytes(d.Available()), devices.FormatBytes(d.Total), devices.FormatBytes(h.Bytes), state.Dir())
	}
}

// overlay returns environ with the variables vars in place of its own.
func overlay(environ, vars []string) []string {
	others := slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(vars, func(w string) bool { return strings.HasPrefix(w, name+"=") })
	})
	return append(others, vars...)
}

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
