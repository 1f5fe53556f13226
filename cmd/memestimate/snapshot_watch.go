package main

import (
	"context"

	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/snapshot"
)

// A watched is what is known of a snapshot that a job writes again and again.
type watched struct {
	size  int64
	when  time.Time
	last  *snapshot.Snapshot
	lines int
}

// snapshotWatchCommand follows a file that a job rewrites.
func snapshotWatchCommand(e *env) *cobra.Command {
	var every time.Duration
	var d deviceFlag
	var n, places int
	cmd := &cobra.Command{
		Use:   "watch FILE",
		Short: "Follow a snapshot that a job writes again and again: what it holds, and what grew since",
		Long: `Follow a file that a job rewrites, such as once an epoch: a line each time with what is allocated
and reserved, the peak, and the places that hold more than they did before; and why memory ran out,
if it did. A file that is being written is read when it is whole. Ends with Ctrl-C, or after --count
times.`,
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case args[0] == "-":
				return usagef("watch: standard input cannot be followed, want a file")
			case every < 10*time.Millisecond:
				return usagef("--every %v, wanted 10ms or more", every)
			case n < 0 || places < 0:
				return usagef("--count and --places want 0 or more")
			}
			return watch(cmd.Context(), e, args[0], &d, every, n, places)
		},
	}
	d.flag(cmd)
	cmd.Flags().DurationVar(&every, "every", time.Second, "how often to look")
	cmd.Flags().IntVarP(&n, "count", "n", 0, "end after so many snapshots; 0 for never")
	cmd.Flags().IntVar(&places, "places", 3, "how many places that grew are told")
	return cmd
}

func watch(ctx context.Context, e *env, file string, d *deviceFlag, every time.Duration, n, places int) error {
	var w watched
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		st, err := os.Stat(file)
		if err == nil && !st.IsDir() && (st.Size() != w.size || !st.ModTime().Equal(w.when)) {
			size, when := st.Size(), st.ModTime()
			s, err := readSnapshot(e, file)
			// While a job writes it, it is not whole: the next look tells.
			if after, statErr := os.Stat(file); statErr == nil && after.Size() == size && after.ModTime().Equal(when) {
				w.size, w.when = size, when
				if err != nil && time.Since(when) > every {
					return err
				}
				if err != nil {
					w.size = -1
				} else if err := w.tell(e, s, file, d, places); err != nil {
					return err
				}
			}
			if n > 0 && w.lines >= n {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// tell writes what a snapshot has, and what grew since the last one.
func (w *watched) tell(e *env, s *snapshot.Snapshot, file string, d *deviceFlag, places int) error {
	device, err := d.of(s, file)
	if err != nil {
		return err
	}
	h, err := history(s, file, device)
	if err != nil {
		return err
	}
	peak := "unknown"
	if h.Recorded {
		peak = report.Size(h.Allocated.Bytes)
	}
	p := &printer{w: e.stdout}
	p.line("%s  allocated %s, reserved %s, peak %s, %s", time.Now().Format("15:04:05"), report.Size(h.End.Allocated),
		report.Size(h.End.Reserved), peak, count(s.Trace(device).Len(), "event"))
	if w.last != nil {
		shown := 0
		for _, c := range snapshot.Track(w.last, s) {
			if c.Gone || shown == places {
				continue
			}
			shown++
			p.line("  + %s in %s  %s", report.Size(c.Requested*int64(c.Count)), count(c.Count, "allocation"), place(c.Site))
		}
	}
	if len(h.OOMs) > 0 {
		ooms, _, err := oomsOf(s, h)
		if err != nil {
			return fail(exitInput, "%s: %w", quoteArg(file), err)
		}
		last := ooms[len(ooms)-1]
		p.line("  out of memory at event %d: %s asked for %s: %s: %s", last.Event, place(last.Where),
			report.Size(last.Tried), strings.ReplaceAll(last.Cause, "-", " "), clean(last.Why))
	}
	if p.err != nil {
		return fail(exitOutput, "stdout: %w", cause(p.err))
	}
	w.last = s
	w.lines++
	return nil
}
