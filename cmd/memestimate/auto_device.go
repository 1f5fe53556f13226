package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/devices"
	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/report"
)

// An autoDevice is the flags that name a live GPU for an estimate.
type autoDevice struct {
	on     bool
	sure   estimate.Confidence
	choice choice
	gpus   gpuSource
}

func (a *autoDevice) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&a.on, "auto-device", false,
		"name the GPU of this machine that the job fits on, as CUDA_VISIBLE_DEVICES; exit code 1 when none does")
	a.choice.flags(fs)
	a.gpus.flags(fs)
}

// check refuses flags that only say which GPU when no GPU is asked for.
func (a *autoDevice) check(fs *pflag.FlagSet) error {
	if a.on {
		return nil
	}
	var own pflag.FlagSet
	(&autoDevice{}).flags(&own)
	var err error
	own.VisitAll(func(f *pflag.Flag) {
		if err == nil && fs.Changed(f.Name) {
			err = usagef("--%s goes with --auto-device", f.Name)
		}
	})
	return err
}

// choose picks live GPUs for what the report says that a step takes, as sure as was asked for. What others hold
// is passed over, and nothing is held: that is for "memestimate run".
func (a *autoDevice) choose(e *env, r *estimate.Report) ([]devices.Device, error) {
	if r.Peak == nil {
		return nil, fail(exitInput, "what the model takes at its peak is not known, so no GPU can be chosen")
	}
	request, err := a.choice.request(e)
	if err != nil {
		return nil, err
	}
	need, _ := r.Peak.At(a.sure)
	request.Bytes = uint64(max(need, 0))
	session, err := a.gpus.open()
	if err != nil {
		return nil, err
	}
	defer session.Close()
	list, err := a.gpus.list(e, session)
	if err != nil {
		return nil, err
	}
	if request.MaxUtilization != nil {
		session.Observe(list.Devices)
	}
	tellVisible(e, list.Devices)
	chosen, err := devices.Choose(list.Devices, request)
	if err != nil {
		return nil, fail(exitNo, "%w", err)
	}
	return chosen, nil
}

// answer names the GPUs after the report, and gives the line to set in the environment. Behind a report
// for programs that line would be in the way: it goes to stderr.
func (a *autoDevice) answer(e *env, r *estimate.Report, o *output) error {
	chosen, err := a.choose(e, r)
	if err != nil {
		return err
	}
	w := e.stdout
	if o.format != "text" || o.file != "" {
		w = e.stderr
	}
	for i := range chosen {
		d := &chosen[i]
		need, _ := r.Peak.At(a.sure)
		fmt.Fprintf(w, "%s %s: %s available, %s needed (%s)\n", d.Label(), printable(d.Name),
			devices.FormatBytes(d.Available()), report.Size(need), a.sure)
	}
	if _, err := fmt.Fprintln(w, devices.Environment(chosen)[1]); err != nil {
		return fail(exitOutput, "stdout: %w", cause(err))
	}
	return nil
}
