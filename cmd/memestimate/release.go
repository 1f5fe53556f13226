package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/report"
)

// releaseCommand gives reservations up.
func releaseCommand(e *env) *cobra.Command {
	var g gpuSource
	cmd := &cobra.Command{
		Use:   "release RESERVATION|GPU",
		Short: "Give a reservation up, though processes still run under it",
		Long: `Release gives up the reservation of that ID, or all of one's own on a GPU named by number or UUID,
as "memestimate devices --holds" lists them. It ends no process: the GPU is offered to others at
once, and what memory processes still have on it counts as used.

A reservation ends by itself when its command and all that this one started have ended; release is
for what they left behind. It takes the reservation's owner, or root.`,
		Example: `  memestimate devices --holds
  memestimate release 0`,
		Args: exactly("RESERVATION"),
		RunE: func(cmd *cobra.Command, args []string) error { return g.release(e, args[0]) },
	}
	g.flags(cmd.Flags())
	return cmd
}

func (g *gpuSource) release(e *env, what string) error {
	state, err := g.state(e)
	if err != nil {
		return fail(exitDevice, "release: %w", err)
	}
	ids := []string{what}
	if _, err := strconv.Atoi(what); err == nil || strings.HasPrefix(what, "GPU-") || strings.HasPrefix(what, "MIG-") {
		if ids, err = g.on(e, what); err != nil {
			return err
		}
	}
	for _, id := range ids {
		pids, err := state.Free(id)
		if err != nil {
			return fail(exitInput, "release: %w", err)
		}
		still := make([]string, len(pids))
		for i, p := range pids {
			still[i] = strconv.Itoa(p)
		}
		text := "gave up " + id
		switch len(still) {
		case 0:
		case 1:
			text += "; process " + still[0] + " still runs"
		default:
			text += "; processes " + strings.Join(still, ", ") + " still run"
		}
		fmt.Fprintf(e.stderr, "memestimate: %s\n", text)
	}
	return nil
}

// on returns the reservations on a GPU.
func (g *gpuSource) on(e *env, name string) ([]string, error) {
	list, err := g.look(e)
	if err != nil {
		return nil, err
	}
	var ids []string
	for i := range list.Devices {
		d := &list.Devices[i]
		if name != strconv.Itoa(d.Index) && name != d.UUID {
			continue
		}
		for _, r := range d.Reservations {
			if r.ID != "" {
				ids = append(ids, r.ID)
			}
		}
	}
	if len(ids) == 0 {
		return nil, fail(exitInput, "release: GPU %s: nobody holds it", quoteArg(name))
	}
	return ids, nil
}

// holds lays the reservations out, one a line and device.
func (l *deviceList) holds(csv bool) *report.Grid {
	g := &report.Grid{Columns: []report.Column{
		{Title: "Device", Code: true}, {Title: "Reservation", Code: true}, {Title: "Reserved", Right: true},
		{Title: "To come", Right: true},
		{Title: "User", Code: true}, {Title: "Program", Code: true}, {Title: "Process", Right: true}, {Title: "Remark"},
	}}
	size := func(n uint64) string {
		if csv {
			return strconv.FormatUint(n, 10)
		}
		return report.Size(int64(n))
	}
	for i := range l.Devices {
		d := &l.Devices[i]
		for _, r := range d.Reservations {
			program, pid, remark := r.Command, strconv.Itoa(r.PID), ""
			switch {
			case r.Removed:
				g.Rows = append(g.Rows, []string{printable(d.UUID), "?", "?", "?", "?", "?", "?",
					"somebody deleted its file; it ends with its processes"})
				continue
			case r.Left && r.Holder == 0:
				program, pid, remark = "?", "?", fmt.Sprintf("left behind by %s (%d)", report.Show(r.Command, 20), r.PID)
			case r.Left:
				program, pid, remark = r.HolderCommand, strconv.Itoa(r.Holder), fmt.Sprintf("left behind by %s (%d)",
					report.Show(r.Command, 20), r.PID)
			}
			if r.Share {
				remark = strings.TrimPrefix(remark+", shared", ", ")
			}
			if r.Within != "" {
				remark = strings.TrimPrefix(remark+", within "+r.Within, ", ")
			}
			since := "since " + r.Started.Local().Format(time.DateTime)
			remark = strings.TrimPrefix(remark+", "+since, ", ")
			g.Rows = append(g.Rows, []string{
				printable(d.UUID), report.Show(r.ID, 40), size(r.Bytes), size(r.Outstanding), report.Show(r.User,
					20), report.Show(program, 20), pid, remark,
			})
		}
	}
	return g
}
