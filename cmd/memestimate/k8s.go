//go:build !js

package main

import (
	"io"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/cluster/kubernetes"
)

// driverShare is what driver and firmware keep of a GPU beside what processes have, rounded up: 480 MiB was seen of an
// H100, 648 of an A100. Kubernetes knows a GPU's memory in all, and a job has what that leaves.
const driverShare = 1 << 30

// podFlags are the flags that say how a pod asks for GPUs.
func podFlags(fs *pflag.FlagSet, n *kubernetes.Need, plugin *bool) {
	n.Class, n.Driver, n.Resource = "gpu.nvidia.com", "gpu.nvidia.com", "nvidia.com/gpu"
	addFlags(fs, []flagRow{
		{"device-plugin", 0, plugin, "ask for the device plugin's GPUs, with node affinity on GPU feature discovery's " +
			"labels, instead of a resource claim"},
		{"device-class", 0, &n.Class, "the device class of a resource claim"},
		{"driver", 0, &n.Driver, "the driver whose devices say how much memory they have"},
		{"resource", 0, &n.Resource, "the device plugin's resource; nvidia.com/mig-3g.40gb for a MIG profile"},
		{"queue", 0, &n.Queue, "hand the job to this queue of Kueue"},
	})
}

// jobName matches what Kubernetes takes as the name of a Job: its pods have it as a label.
var jobName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// k8sCommand writes a job's need into Kubernetes manifests.
func k8sCommand(e *env) *cobra.Command {
	var model subject
	var count gpuCount
	var need kubernetes.Need
	var plugin bool
	file, image, name := "", "pytorch/pytorch", "train"
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
			command, usage := model.take(cmd.Name(), cmd.UseLine(), args, cmd.ArgsLenAtDash())
			if usage != nil {
				return usage
			}
			bytes, err := model.asked(e, cmd)
			if err != nil {
				return err
			}
			if file != "" && (len(command) > 0 || cmd.Flags().Changed("image") || cmd.Flags().Changed("name")) {
				return usagef("k8s: --file has the job: no COMMAND, --image or --name beside it")
			}
			if !jobName.MatchString(name) {
				return usagef("k8s: --name %q: wanted up to 63 of a-z, 0-9 and -, a letter or digit first and last", name)
			}
			need.Bytes, need.GPUs, need.DRA = bytes+model.margin+driverShare, count.least(), !plugin
			job, err := kubernetes.Encode(kubernetes.Job(name, image, command))
			if err == nil && file != "" {
				job, err = readManifest(e, file)
			}
			if err != nil {
				return err
			}
			if job, err = need.Patch(job); err != nil {
				return fail(exitInput, "k8s: %s: %w", quoteArg(file), err)
			}
			o := output{format: "text"}
			return o.write(e, func(w io.Writer) error { _, err := w.Write(job); return err })
		},
	}
	addFlags(cmd.Flags(), []flagRow{
		{"count n", 0, gpuCountFlag(&count), "how many GPUs"},
		{"file", 0, &file, "manifests to write the need into; - for standard input"},
		{"image", 0, &image, "the image of the Job that is printed without --file"},
		{"name", 0, &name, "the name of that Job"},
	})
	model.needFlags(cmd.Flags())
	podFlags(cmd.Flags(), &need, &plugin)
	return cmd
}

// maxManifest bounds what is read of manifests.
const maxManifest = 8 << 20

func readManifest(e *env, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(io.LimitReader(e.stdin, maxManifest))
	}
	return readSmall(file, maxManifest, "a manifest")
}
