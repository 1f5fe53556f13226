package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/snapshot"
)

// snapshotCommand reads what PyTorch measured: one subcommand for each question.
func snapshotCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot COMMAND",
		Short: "Read and draw PyTorch memory snapshots",
		Long:  `Read and draw the files that torch.cuda.memory._dump_snapshot writes, gzip compressed or not. "-" is standard input. Nothing in a file is executed.`,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("snapshot: no command given").withHint("memestimate snapshot --help lists them; memestimate " +
					"snapshot show FILE is the first to try")
			}
			hint := "memestimate snapshot show " + quoteArg(args[0]) + " tells what the file holds"
			if near := nearestCommand(cmd, args[0]); near != "" {
				hint = didYouMean("memestimate snapshot " + near)
			}
			return usagef("snapshot: unknown command %q", args[0]).withHint("%s", hint)
		},
	}
	cmd.AddCommand(snapshotShowCommand(e), snapshotHTMLCommand(e))
	return cmd
}

// snapshotSource is a snapshot as the command line names it.
func snapshotSource(e *env, arg string) source {
	if arg == "-" {
		return source{arg: arg, name: e.nameOf(arg)}
	}
	return source{arg: arg, name: filepath.Base(arg), file: arg}
}

// onceStdin refuses standard input as more than one of the files.
func onceStdin(args []string) error {
	if i := slices.Index(args, "-"); i >= 0 && slices.Contains(args[i+1:], "-") {
		return usagef("only one of the files can be standard input")
	}
	return nil
}

// openSnapshot reads a snapshot for an output, which may be no part of it.
func openSnapshot(e *env, o *output, arg string) (*snapshot.Snapshot, error) {
	if err := o.check(snapshotSource(e, arg)); err != nil {
		return nil, err
	}
	return readSnapshot(e, arg)
}

// readSnapshot reads a file, or standard input where the argument is "-".
func readSnapshot(e *env, arg string) (*snapshot.Snapshot, error) {
	r, name, err := e.open(arg)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if st, err := os.Stat(arg); arg != "-" && err == nil && st.IsDir() {
		return nil, fail(exitInput, "%s: is a folder, wanted a memory snapshot", name)
	}
	p := startProgress(e, "reading "+name)
	defer p.done()
	s, err := snapshot.Read(r, snapshot.Options{})
	if err != nil {
		return nil, fail(exitInput, "%s: %w", name, cause(err))
	}
	return s, nil
}

// deviceFlag is the flag --device of a command that looks at one device.
type deviceFlag struct{ n int }

func (d *deviceFlag) flag(cmd *cobra.Command) {
	cmd.Flags().IntVar(&d.n, "device", -1, "number of the GPU in the file (the first that has anything)")
}

// of returns the device to look at in a file, which arg names.
func (d *deviceFlag) of(s *snapshot.Snapshot, arg string) (int, error) {
	if d.n >= 0 {
		if d.n >= max(s.Devices(), 1) {
			return 0, usagef("%s: --device %d, but it has %s, from 0 on", quoteArg(arg), d.n, report.Plural(s.Devices(), "device"))
		}
		return d.n, nil
	}
	if d.n != -1 {
		return 0, usagef("--device %d, wanted 0 or more", d.n)
	}
	for i := range s.Devices() {
		if used(s, i) {
			return i, nil
		}
	}
	return 0, nil
}

// used says whether the snapshot has anything about a device.
func used(s *snapshot.Snapshot, device int) bool {
	if device < len(s.Traces) && s.Traces[device].Len() > 0 {
		return true
	}
	return s.Figures(device).Reserved > 0
}

// history plays a device's trace.
func history(s *snapshot.Snapshot, arg string, device int) (*snapshot.History, error) {
	h, err := s.History(device)
	if err != nil {
		return nil, fail(exitInput, "%s: %w", quoteArg(arg), err)
	}
	return h, nil
}

// eventName says which event it was: "event 812 (alloc)".
func eventName(s *snapshot.Snapshot, device, i int) string {
	if i < 0 || device >= len(s.Traces) {
		return "before the recording"
	}
	return fmt.Sprintf("event %d (%s)", i, report.Show(s.ActionName(s.Traces[device].At(i).Action), 40))
}
