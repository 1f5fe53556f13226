package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/memestimate/memestimate/devices"
	"github.com/memestimate/memestimate/report"
)

// A deviceScreen is the list of devices for a person at a terminal: one line a GPU with a bar of its memory, then who
// holds GPUs and whose processes run on them. UUIDs, modes and notes are in the other forms.
type deviceScreen struct {
	look  report.Look
	lines []string
}

// Least widths of the parts of a line, in characters.
const (
	leastBar    = 8
	mostBar     = 40
	leastGPU    = 10 // of a name
	mostProcess = 20 // lines about processes
)

// screen draws the list.
func (l *deviceList) screen(w io.Writer, look report.Look) error {
	look.Width = max(cmp.Or(look.Width, 80), 40)
	s := &deviceScreen{look: look}
	s.gpus(l.Devices)
	s.held(l.Devices)
	if err := s.processes(l.Devices); err != nil {
		return err
	}
	_, err := io.WriteString(w, strings.Join(s.lines, "\n")+"\n")
	return err
}

// A gpuLine is what a line says of a GPU, a text a column.
type gpuLine struct {
	d                               *devices.Device
	label, name                     string
	memory, busy, temperature, watt string
}

// gpus draws the line of each GPU. Where there is no room power goes first, then temperature, utilization, and the end
// of the name.
func (s *deviceScreen) gpus(ds []devices.Device) {
	var rows []gpuLine
	for i := range ds {
		d := &ds[i]
		r := gpuLine{d: d, label: strings.TrimPrefix(d.Label(), "GPU "),
			name: strings.TrimPrefix(printable(d.Name), "NVIDIA ")}
		if d.HasMemory {
			r.memory = fmt.Sprintf("%s/%s GiB", gibibytes(d.Used), gibibytes(d.Total))
		}
		if a := d.Activity; a.Utilization >= 0 {
			r.busy = fmt.Sprintf("%d%%", a.Utilization)
		}
		if d.Activity.Temperature >= 0 {
			r.temperature = fmt.Sprintf("%d°C", d.Activity.Temperature)
			if s.look.ASCII {
				r.temperature = fmt.Sprintf("%dC", d.Activity.Temperature)
			}
		}
		if d.Activity.Power >= 0 {
			r.watt = fmt.Sprintf("%dW", (d.Activity.Power+500)/1000)
		}
		rows = append(rows, r)
	}
	columns := []func(*gpuLine) *string{
		func(r *gpuLine) *string { return &r.label }, func(r *gpuLine) *string { return &r.name },
		func(r *gpuLine) *string { return &r.memory }, func(r *gpuLine) *string { return &r.busy },
		func(r *gpuLine) *string { return &r.temperature }, func(r *gpuLine) *string { return &r.watt },
	}
	title := gpuLine{label: "GPU", name: "name", memory: "used/total", busy: "busy", temperature: "temp", watt: "power"}
	widths := make([]int, len(columns))
	for i, c := range columns {
		for j := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(*c(&rows[j])))
		}
		if widths[i] > 0 {
			widths[i] = max(widths[i], utf8.RuneCountInString(*c(&title)))
		}
	}
	bar := func() int {
		left := s.look.Width
		for _, n := range widths {
			if n > 0 {
				left -= n + 2
			}
		}
		return left
	}
	for _, i := range []int{5, 4, 3} {
		if bar() < leastBar {
			widths[i] = 0
		}
	}
	if short := leastBar - bar(); short > 0 {
		widths[1] = max(widths[1]-short, min(widths[1], leastGPU))
	}
	cells := min(max(bar(), 0), mostBar)
	draw := func(r *gpuLine, middle string) string {
		text := pad(r.label, widths[0]) + "  " + pad(cutTo(r.name, widths[1]), widths[1]) + "  " + middle
		for i, c := range columns[2:] {
			if n := widths[i+2]; n > 0 {
				text += "  " + strings.Repeat(" ", n-utf8.RuneCountInString(*c(r))) + *c(r)
			}
		}
		return strings.TrimRight(text, " ")
	}
	heading := "memory"
	if cells < len(heading) {
		heading = ""
	}
	s.line(s.paint("1", draw(&title, pad(heading, cells))))
	for i := range rows {
		r := &rows[i]
		if r.d.MIG == devices.MIGParent || !r.d.HasMemory {
			text := pad(r.label, widths[0]) + "  " + pad(cutTo(r.name, widths[1]), widths[1]) + "  "
			s.line(text + s.paint("90", cutTo(printable(r.d.Reason), s.look.Width-widths[0]-widths[1]-4)))
			continue
		}
		s.line(draw(r, s.bar(r.d, cells)))
	}
	for i := range rows {
		if d := rows[i].d; d.HasMemory && d.MIG != devices.MIGParent && !d.Usable() {
			s.line(cutTo(d.Label()+" cannot be used: "+printable(d.Reason), s.look.Width))
		}
	}
}

// bar draws a GPU's memory: what is used, what reservations still have coming, and what is left.
func (s *deviceScreen) bar(d *devices.Device, cells int) string {
	full, coming, empty := "█", "▒", "░"
	if s.look.ASCII {
		full, coming, empty = "#", "+", "."
	}
	all := max(float64(d.Used+d.Free), 1)
	part := func(n uint64) int {
		k := int(math.Round(float64(n) / all * float64(cells)))
		if n > 0 {
			k = max(k, 1) // what is there shows
		}
		return min(k, cells)
	}
	used := part(d.Used)
	pending := min(part(d.Free-d.Available()), cells-used)
	colour := "32"
	switch share := float64(d.Used) / all; {
	case share >= 0.9:
		colour = "31"
	case share >= 0.5:
		colour = "33"
	}
	return s.paint(colour, strings.Repeat(full, used)) + s.paint("34", strings.Repeat(coming, pending)) +
		s.paint("90", strings.Repeat(empty, cells-used-pending))
}

// held lists the reservations.
func (s *deviceScreen) held(ds []devices.Device) {
	first := true
	for i := range ds {
		for _, r := range ds[i].Reservations {
			if first {
				s.line("")
				first = false
			}
			text := fmt.Sprintf("%s is held by %s (%s, %d): %s, %s to come", ds[i].Label(), report.Show(r.User, 12),
				report.Show(r.Command, 16), r.PID, report.Size(int64(r.Bytes)), report.Size(int64(r.Outstanding)))
			switch {
			case r.Removed:
				text = ds[i].Label() + " is held by a process whose reservation somebody deleted"
			case r.Left:
				text += ", which left it behind"
			case r.Share:
				text += ", shared"
			}
			s.line(cutTo(text, s.look.Width))
		}
	}
}

// processes lists the processes by user, the user with the most memory first.
func (s *deviceScreen) processes(ds []devices.Device) error {
	type row struct {
		gpu string
		p   devices.Process
	}
	byUser := map[string][]row{}
	sum := map[string]uint64{}
	for i := range ds {
		for _, p := range ds[i].Processes {
			user := "?"
			if p.User != "" {
				user = report.Show(p.User, 12)
			}
			byUser[user] = append(byUser[user], row{strings.TrimPrefix(ds[i].Label(), "GPU "), p})
			sum[user] += p.Bytes
		}
	}
	users := make([]string, 0, len(byUser))
	for u := range byUser {
		users = append(users, u)
	}
	slices.SortFunc(users, func(a, b string) int { return cmp.Or(cmp.Compare(sum[b], sum[a]), cmp.Compare(a, b)) })
	if len(users) == 0 {
		return nil
	}
	g := &report.Grid{Columns: []report.Column{
		{Title: "user"}, {Title: "in all", Right: true, Spare: 3}, {Title: "GPU"}, {Title: "process", Right: true, Spare: 2},
		{Title: "memory", Right: true}, {Title: "program", Spare: 1},
	}}
	all := 0
	for _, u := range users {
		rows := byUser[u]
		all += len(rows)
		slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.p.Bytes, a.p.Bytes) })
		for i, r := range rows[:min(len(rows), mostProcess-len(g.Rows))] {
			cells := []string{"", "", r.gpu, strconv.Itoa(r.p.PID), "?", "?"}
			if i == 0 {
				cells[0], cells[1] = u, report.Size(int64(sum[u]))
			}
			if r.p.Known {
				cells[4] = report.Size(int64(r.p.Bytes))
			}
			if r.p.Command != "" {
				cells[5] = report.Show(r.p.Command, 20)
			}
			g.Rows = append(g.Rows, cells)
		}
	}
	var b strings.Builder
	if err := g.Text(&b, s.look.Width); err != nil {
		return err
	}
	s.line("")
	s.line(strings.TrimRight(b.String(), "\n"))
	if all > len(g.Rows) {
		s.line(fmt.Sprintf("and %d more: --format json has all", all-len(g.Rows)))
	}
	return nil
}

func (s *deviceScreen) line(text string) { s.lines = append(s.lines, text) }

// paint colours a text where the terminal shows colours.
func (s *deviceScreen) paint(colour, text string) string {
	if !s.look.Colour || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// pad fills a text up with spaces to n characters.
func pad(text string, n int) string {
	return text + strings.Repeat(" ", max(n-utf8.RuneCountInString(text), 0))
}

// cutTo keeps n characters of a text, the last two dots where it is longer.
func cutTo(text string, n int) string {
	if r := []rune(text); len(r) > max(n, 2) {
		return string(r[:max(n, 2)-2]) + ".."
	}
	return text
}

// gibibytes writes a size in GiB with one decimal.
func gibibytes(n uint64) string { return fmt.Sprintf("%.1f", float64(n)/(1<<30)) }
