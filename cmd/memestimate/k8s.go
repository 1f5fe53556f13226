//go:build !js

package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/cluster/kubernetes"
)

// driverShare is what driver and firmware keep of a GPU beside what processes have, rounded up: 480 MiB was seen of an
// H100, 648 of an A100. Kubernetes knows a GPU's memory in all, and a job has what that leaves.
const driverShare = 1 << 30

// A podNeed is the flags that say how a pod asks for GPUs.
type podNeed struct {
	plugin                         bool
	class, driver, resource, queue string
}

func (p *podNeed) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&p.plugin, "device-plugin", false,
		"ask for the device plugin's GPUs, with node affinity on GPU feature discovery's labels, instead of a resource claim")
	fs.StringVar(&p.class, "device-class", "gpu.nvidia.com", "the device class of a resource claim")
	fs.StringVar(&p.driver, "driver", "gpu.nvidia.com", "the driver whose devices say how much memory they have")
	fs.StringVar(&p.resource, "resource", "nvidia.com/gpu",
		"the device plugin's resource; nvidia.com/mig-3g.40gb for a MIG profile")
	fs.StringVar(&p.queue, "queue", "", "hand the job to this queue of Kueue")
}

func (p *podNeed) need(bytes uint64, gpus int) *kubernetes.Need {
	return &kubernetes.Need{Bytes: bytes + driverShare, GPUs: gpus, DRA: !p.plugin, Class: p.class, Driver: p.driver,
		Resource: p.resource, Queue: p.queue}
}

// k8sCommand writes a job's need into Kubernetes manifests.
func k8sCommand(e *env) *cobra.Command {
	var l launch
	var p podNeed
	var file, image, name string
	cmd := &cobra.Command{
		Use:   "k8s [MODEL] [flags] [-- COMMAND [ARG]...]",
		Short: "Kubernetes manifests of a job, with the GPUs that hold it",
		Long: `K8s writes what a job needs into Kubernetes manifests: a claim template of dynamic resource
allocation (resource.k8s.io/v1) that selects devices by their memory, or with --device-plugin the
plugin's resource and node affinity on the label nvidia.com/gpu.memory. The need is what is safe by
a MODEL's estimate, or --need, and 1 GiB for what driver and firmware keep.

With --file it writes the need into the jobs, pods and other kinds of that file that make pods, for
their first container; otherwise it prints a Job. Apply it with kubectl; the scheduler does the
rest.`,
		Example: `  memestimate k8s resnet50 --batch 256 --file job.yaml | kubectl apply -f -
  memestimate k8s --need 30GiB --device-plugin --image pytorch/pytorch -- python train.py`,
		RunE: func(cmd *cobra.Command, args []string) error {
			l.cluster, l.print, l.choice.policy, l.format = "kubernetes", true, "best-fit", "text"
			request, command, err := l.check(e, cmd, args)
			if err != nil {
				return err
			}
			if file != "" && (len(command) > 0 || cmd.Flags().Changed("image") || cmd.Flags().Changed("name")) {
				return usagef("k8s: --file has the job: no COMMAND, --image or --name beside it")
			}
			need := p.need(request.Bytes+request.Margin, l.choice.count.least())
			job, err := kubernetes.Encode(kubernetes.Job(name, image, command))
			if err == nil && file != "" {
				job, err = readManifest(e, file)
			}
			if err == nil {
				job, err = need.Patch(job)
			}
			if err != nil {
				return fail(exitInput, "k8s: %s: %w", quoteArg(file), err)
			}
			o := output{format: "text"}
			return o.write(e, func(w io.Writer) error { _, err := w.Write(job); return err })
		},
	}
	fs := cmd.Flags()
	fs.Var(&l.choice.need, "need", "memory that the command takes on each GPU, such as 20GiB; instead of a MODEL")
	fs.Var(&l.choice.margin, "margin", "memory that must be there beyond that")
	fs.VarP(&l.choice.count, "count", "n", "how many GPUs")
	fs.StringVar(&file, "file", "", "manifests to write the need into; - for standard input")
	fs.StringVar(&image, "image", "pytorch/pytorch", "the image of the Job that is printed without --file")
	fs.StringVar(&name, "name", "train", "the name of that Job")
	l.model.needFlags(fs)
	p.flags(fs)
	return cmd
}

// maxManifest bounds what is read of manifests.
const maxManifest = 8 << 20

func readManifest(e *env, file string) ([]byte, error) {
	in := e.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, cause(err)
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, maxManifest))
}
