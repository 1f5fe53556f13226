package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/devices"
	"github.com/memestimate/memestimate/report"
)

// A gpuSource is where GPUs and their reservations are looked up: the flags that all
// commands with GPUs have.
type gpuSource struct {
	nvml     string
	stateDir string
}

func (g *gpuSource) flags(fs *pflag.FlagSet) {
	addFlags(fs, []flagRow{
		{"nvml", 0, &g.nvml, "path of NVIDIA's management library, when it is not where the system keeps it"},
		{"state-dir", 0, &g.stateDir, "directory of the reservations, shared by all users and containers of the host\n" +
			"(default $MEMESTIMATE_STATE_DIR, or /run/lock/memestimate, or /tmp/memestimate)"},
	})
}

// open connects to the GPUs.
func (g *gpuSource) open() (*devices.Session, error) {
	s, err := devices.Open(g.nvml)
	if err != nil {
		return nil, deviceError(err)
	}
	return s, nil
}

// state opens the reservations.
func (g *gpuSource) state(e *env) (*devices.State, error) {
	return devices.OpenState(cmp.Or(g.stateDir, e.getenv("MEMESTIMATE_STATE_DIR")))
}

// deviceError gives an error of the driver its exit code, and its cure.
func deviceError(err error) error {
	x := fail(exitDevice, "%w", err)
	if init, ok := errors.AsType[*devices.InitError](err); ok && init.Hint() != "" {
		return x.withHint("%s", init.Hint())
	}
	return x
}

// devicesCommand lists the GPUs.
func devicesCommand(e *env) *cobra.Command {
	var g gpuSource
	var o output
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "GPUs with total, used and free memory, and who holds them",
		Long: `Devices lists every GPU and MIG instance of this machine as the NVIDIA driver sees it: its memory,
processes and compute mode, the reservations that "memestimate run" made, and whether a job can use
it.

Used is what processes have. What driver and firmware set aside is in neither used nor free, where
the driver tells it apart (from R510 on), as in nvidia-smi. Sizes in the table are MiB.

CSV and JSON have utilization, temperature and power too.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			s, err := g.open()
			if err != nil {
				return err
			}
			defer s.Close()
			list, err := g.list(e, s)
			if err != nil {
				return err
			}
			s.Observe(list.Devices)
			if list.owner != "" {
				fmt.Fprintf(e.stderr, "memestimate: %s belongs to %s, who can remove what it says of reservations; "+
					"they still count\n", quoteArg(list.StateDir), list.owner)
			}
			return o.answer(e, list, func() *report.Grid { return list.grid(o.format == "csv") })
		},
	}
	g.flags(cmd.Flags())
	o.flags(cmd.Flags(), "text", "json", "csv", "markdown")
	return cmd
}

// A deviceList is the answer of devices.
type deviceList struct {
	Schema   string           `json:"schema"`
	Driver   string           `json:"driver"`
	StateDir string           `json:"state_dir"`
	Devices  []devices.Device `json:"devices"`

	owner string // of the state directory, when that is neither root nor this user
}

// look lists the GPUs as they are now, for those who do nothing else with them.
func (g *gpuSource) look(e *env) (*deviceList, error) {
	session, err := g.open()
	if err != nil {
		return nil, err
	}
	defer session.Close()
	return g.list(e, session)
}

// list asks the driver and hangs the reservations on the devices. A state directory that cannot be
// read costs the reservations, not the list.
func (g *gpuSource) list(e *env, s *devices.Session) (*deviceList, error) {
	ds, err := s.List()
	if err != nil {
		return nil, deviceError(err)
	}
	list := &deviceList{Schema: devicesForm, Devices: ds}
	list.Driver, err = s.Driver()
	if err != nil {
		list.Driver = ""
	}
	if len(ds) == 0 {
		return nil, fail(exitDevice, "%s has no GPU to show",
			strings.TrimSpace("the NVIDIA driver "+list.Driver)).withHint(
			"in a container, ask for the GPUs: docker run --gpus all")
	}
	state, err := g.state(e)
	if err == nil {
		list.StateDir, list.owner = state.Dir(), state.Owner()
		err = state.Attach(ds)
	}
	if err != nil {
		fmt.Fprintf(e.stderr, "memestimate: reservations are not shown: %s\n", oneLine(err.Error()))
	}
	return list, nil
}

// grid lays the list out. The CSV has bytes and plain columns, for programs.
func (l *deviceList) grid(csv bool) *report.Grid {
	g := &report.Grid{Columns: []report.Column{
		{Title: "GPU"}, {Title: "UUID", Spare: 3, Code: true}, {Title: "Name", Code: true},
		{Title: "Total MiB", Right: true}, {Title: "Used MiB", Right: true}, {Title: "Free MiB", Right: true},
		{Title: "Processes"}, {Title: "Mode", Spare: 2}, {Title: "Reserved", Spare: 1, Code: true}, {Title: "State"},
	}}
	if csv {
		for i, title := range []string{"gpu", "uuid", "name", "total_bytes", "used_bytes", "free_bytes", "processes",
			"compute_mode", "reservations", "state"} {
			g.Columns[i].Title = title
		}
		for _, title := range []string{"utilization_percent", "temperature_celsius", "power_watts"} {
			g.Columns = append(g.Columns, report.Column{Title: title, Right: true})
		}
	}
	for i := range l.Devices {
		d := &l.Devices[i]
		size := func(n uint64) string {
			switch {
			case !d.HasMemory:
				return "?"
			case csv:
				return strconv.FormatUint(n, 10)
			}
			return report.Count(int64(n >> 20))
		}
		row := []string{
			strings.TrimPrefix(d.Label(),
				"GPU "), printable(d.UUID), printable(d.Name), size(d.Total), size(d.Used), size(d.Free),
			processes(d), d.Mode.String(), first(d.Reservations, reservation), deviceState(d),
		}
		if csv {
			row = append(row, figure(d.Activity.Utilization, 1), figure(d.Activity.Temperature, 1),
				figure(d.Activity.Power, 1000))
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// figure writes a figure of a device's activity, in units of so many; nothing where the driver does not tell.
func figure(n, unit int) string {
	if n < 0 {
		return ""
	}
	return strconv.FormatFloat(float64(n)/float64(unit), 'f', -1, 64)
}

// printable returns a name that the driver gave without what could upset a table, a terminal or a page.
func printable(s string) string {
	if s == "" {
		return "?"
	}
	if strings.IndexByte("=+-@", s[0]) >= 0 { // a spreadsheet would take it for a formula
		s = "?" + s[1:]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune("|`<>&", r) {
			return '?'
		}
		return r
	}, s)
}

// listed is how many processes or reservations a cell names.
const listed = 4

// first writes the first few of a list.
func first[T any](all []T, write func(*T) string) string {
	var cells []string
	for i := range all[:min(len(all), listed)] {
		cells = append(cells, write(&all[i]))
	}
	if more := len(all) - listed; more > 0 {
		cells = append(cells, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(cells, "; ")
}

func processes(d *devices.Device) string {
	if !d.KnowsProcesses {
		return "?"
	}
	return first(d.Processes, func(p *devices.Process) string {
		if !p.Known {
			return fmt.Sprintf("%d: ?", p.PID)
		}
		return fmt.Sprintf("%d: %s", p.PID, report.Size(int64(p.Bytes)))
	})
}

func reservation(r *devices.Reservation) string {
	holder, command, remark := r.PID, r.Command, ""
	switch {
	case r.Removed:
		return "somebody deleted its file; it ends with its processes"
	case r.Left:
		holder, command = r.Holder, cmp.Or(r.HolderCommand, "?")
		remark = fmt.Sprintf(", left behind by %s (%d)", report.Show(r.Command, 20), r.PID)
	}
	if r.Share {
		remark += ", shared"
	}
	return fmt.Sprintf("%s by %d (%s, %s%s)", report.Size(int64(r.Bytes)), holder, report.Show(r.User, 20),
		report.Show(command, 20), remark)
}

// deviceState says whether a job could be given the device, and what could not be learnt.
func deviceState(d *devices.Device) string {
	state := "usable"
	if !d.Usable() {
		state = "unusable: " + d.Reason
	}
	if d.Unified {
		state += "; its memory is the host's"
	}
	return strings.Join(append([]string{state}, d.Notes...), "; ")
}
