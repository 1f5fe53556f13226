package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/gpu"
)

// gpusCommand lists the GPUs that are known by name.
func gpusCommand(e *env) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "gpus [NAME]",
		Short: "List the GPUs that are known by name",
		Long: `List the GPUs that --gpu knows. As much of a name is enough as tells a GPU from the others, in any
case: 4090, "A100 80G". Memory is what CUDA reports, CC the compute capability, SMs the
multiprocessors. The rules were measured on one GPU. For the others these three are known, from which
predictions are derived; those of some were judged on runs that others published. "memestimate
devices" lists those of this machine. With a name, the one that --gpu takes for it.

Of AMD's and Intel's the memory alone is known, and of a size, --gpu 24GiB: what the run takes is that
on the first GPU of the list, or on the one that a recording was made for.`,
		Args: atMost("name"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			listed := gpu.Known()
			if len(args) == 1 {
				d, err := gpu.Find(args[0])
				if err != nil {
					return usagef("%v", err)
				}
				listed = []gpu.Device{d}
			}
			return o.answer(e, gpuListOf(listed), func() *report.Grid { return gpuGrid(listed, o.format) })
		},
	}
	o.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}

// gpuGrid has a line for each GPU. That of a terminal, of 80 characters, abbreviates what is the same everywhere.
func gpuGrid(listed []gpu.Device, format string) *report.Grid {
	g := &report.Grid{Columns: []report.Column{
		{Title: "gpu"}, {Title: "name"}, {Title: "memory", Right: true}, {Title: "compute capability", Right: true},
		{Title: "multiprocessors", Right: true}, {Title: "basis"},
	}}
	if format == "text" {
		g.Columns[3].Title, g.Columns[4].Title = "CC", "SMs"
	}
	for _, d := range listed {
		size, name, basis := report.Size(d.Memory), d.Name, d.Basis()
		capability, sms := d.Capability.String(), strconv.Itoa(d.Multiprocessors)
		if d.MemoryOnly {
			capability, sms = "", ""
		}
		switch format {
		case "csv":
			size = strconv.FormatInt(d.Memory, 10)
		case "text":
			name, basis = strings.TrimPrefix(name, "NVIDIA "), strings.TrimPrefix(basis, "judged on ")
		}
		g.Rows = append(g.Rows, []string{d.ID, name, size, capability, sms, basis})
	}
	return g
}

func gpuListOf(listed []gpu.Device) (list gpuList) {
	list.Schema = gpusForm
	for _, d := range listed {
		list.GPUs = append(list.GPUs, knownGPU{d.ID, d.Name, d.Memory, d.Capability.String(), d.Multiprocessors, d.Measured,
			d.Basis()})
	}
	return list
}
