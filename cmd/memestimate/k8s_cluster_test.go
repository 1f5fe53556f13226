//go:build linux && kubernetes

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/must"
)

// A podGroup is jobs that ask for the same, and where they must end up.
type podGroup struct {
	name  string
	args  []string
	count int
	node  string // "" where no node can have them
}

// place submits groups one after the other, for the scheduler takes any GPU that is large enough, and waits until every
// job is where it must be.
func (k *controlPlane) place(groups []podGroup, more ...string) {
	k.t.Helper()
	want := map[string]string{}
	for _, g := range groups {
		for i := range g.count {
			name := fmt.Sprint(g.name, "-", i)
			want[name] = g.node
			k.apply(k.manifest(append(append(append([]string{}, g.args...), more...), "--name", name, "--", "sleep", "1")...))
		}
		var got map[string]string
		for end := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			got = k.placed()
			done := true
			for name, node := range want {
				at, there := got[name]
				done = done && there && at == node
			}
			if done {
				break
			}
			if time.Now().After(end) {
				k.t.Fatalf("%s: the jobs are on %v, want %v", g.name, got, want)
			}
		}
	}
	k.t.Logf("%d jobs: %v", len(want), want)
}

// TestKubernetes places jobs with a real API server and scheduler.
func TestKubernetes(t *testing.T) {
	k := startKubernetes(t)
	k.apply(`apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec:
  selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com'"}}]
`)
	k.node("n24", "NVIDIA GeForce RTX 4090", 24564, 2, false)
	k.node("n40", "NVIDIA A100-SXM4-40GB", 40960, 4, false)
	k.node("n80", "NVIDIA H100 80GB HBM3", 81559, 4, false)

	t.Run("twenty claims", func(t *testing.T) {
		k.t = t
		k.place([]podGroup{
			{"bert", []string{"bert_base", "--batch", "352"}, 4, "n80"}, // 56.8 GiB
			{"bert-late", []string{"bert_base", "--batch", "352"}, 2, ""},
			{"dense", []string{"densenet121", "--batch", "256"}, 4, "n40"}, // 37.6 GiB
			{"dense-late", []string{"densenet121", "--batch", "256"}, 2, ""},
			{"swin", []string{"swin_t", "--batch", "128"}, 2, "n24"}, // 15.7 GiB
			{"swin-late", []string{"swin_t", "--batch", "128"}, 2, ""},
			{"huge", []string{"--need", "90GiB"}, 1, ""},
			{"pair", []string{"--need", "30GiB", "-n", "2"}, 1, ""},
			{"five", []string{"--need", "10GiB", "-n", "5"}, 1, ""},
			{"nominal", []string{"--need", "80GiB"}, 1, ""}, // an "80 GB" H100 has 79.65 GiB
		})
		out, err := k.kubectl("", "get", "resourceclaims", "-o", "json")
		must.OK(t, err)
		var claims struct {
			Items []struct {
				Status struct {
					Allocation struct {
						Devices struct {
							Results []struct{ Pool, Device string }
						}
					}
				}
			}
		}
		must.OK(t, json.Unmarshal([]byte(out), &claims))
		given := map[string]bool{}
		for _, c := range claims.Items {
			for _, d := range c.Status.Allocation.Devices.Results {
				if given[d.Pool+"/"+d.Device] || d.Device == "no-gpu" {
					t.Errorf("%s/%s is given twice, or is none", d.Pool, d.Device)
				}
				given[d.Pool+"/"+d.Device] = true
			}
		}
		if len(claims.Items) != 20 || len(given) != 10 {
			t.Errorf("%d claims, of which %d devices are given: %v", len(claims.Items), len(given), given)
		}
		// What becomes free goes to one that waits for as much.
		k.remove("bert-0")
		k.wait("the GPU that came free", time.Minute, func() bool {
			at := k.placed()
			return at["bert-late-0"] == "n80" || at["bert-late-1"] == "n80" || at["dense-late-0"] == "n80" ||
				at["dense-late-1"] == "n80" || at["swin-late-0"] == "n80" || at["swin-late-1"] == "n80"
		})
		k.clear()
	})

	t.Run("twenty jobs by device plugin", func(t *testing.T) {
		k.t = t
		k.node("p24", "NVIDIA GeForce RTX 4090", 24564, 2, true)
		k.node("p40", "NVIDIA A100-SXM4-40GB", 40960, 4, true)
		k.node("p80", "NVIDIA H100 80GB HBM3", 81559, 4, true)
		k.place([]podGroup{
			{"bert", []string{"bert_base", "--batch", "352"}, 2, "p80"},
			{"pair", []string{"--need", "60GiB", "-n", "2"}, 1, "p80"},
			{"bert-late", []string{"bert_base", "--batch", "352"}, 2, ""},
			{"dense", []string{"densenet121", "--batch", "256"}, 4, "p40"},
			{"dense-late", []string{"densenet121", "--batch", "256"}, 3, ""},
			{"swin", []string{"swin_t", "--batch", "128"}, 2, "p24"},
			{"swin-late", []string{"swin_t", "--batch", "128"}, 3, ""},
			{"huge", []string{"--need", "90GiB"}, 1, ""},
			{"five", []string{"--need", "10GiB", "-n", "5"}, 1, ""},
			{"nominal", []string{"--need", "80GiB"}, 1, ""},
		}, "--device-plugin")
		k.clear()
	})

	t.Run("other kinds, and Kueue", func(t *testing.T) {
		k.t = t
		pod := "{restartPolicy: %s, containers: [{name: main, image: busybox}, {name: other, image: busybox}]}"
		labelled := "selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: " +
			fmt.Sprintf(pod, "Always") + "}"
		kinds := fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: pod}, spec: %[1]s}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: cron}, spec: {schedule: "0 1 * * *", jobTemplate: {spec: {template: {spec: %[1]s}}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: deployment}, spec: {%[2]s}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: set}, spec: {%[2]s}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: daemon}, spec: {%[2]s}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: stateful}, spec: {serviceName: s, %[2]s}}
`, fmt.Sprintf(pod, "Never"), labelled)
		write(t, k.path("kinds.yaml"), kinds)
		for _, way := range [][]string{nil, {"--device-plugin"},
			{"--device-plugin", "--resource", "nvidia.com/mig-3g.40gb"}} {
			out := k.manifest(append([]string{"--need", "30GiB", "--file", k.path("kinds.yaml")}, way...)...)
			if n := strings.Count(out, "\nkind: ") + 1; n < 6 {
				t.Errorf("%d objects in\n%s", n, out)
			}
		}
		k.apply(k.manifest("--need", "30GiB", "--name", "queued", "--queue", "training"))
		time.Sleep(time.Second)
		if at, made := k.placed()["queued"]; made {
			t.Errorf("a job that Kueue is to start has a pod on %q", at)
		}
	})
}

// remove takes jobs of this name, or all with "", and their pods away, as a kubelet would let it.
func (k *controlPlane) remove(job string) {
	k.t.Helper()
	which, pods := []string{"--all"}, []string{"get", "pods", "-o", "name"}
	if job != "" {
		which, pods = []string{job}, append(pods, "-l", "batch.kubernetes.io/job-name="+job)
	}
	if out, err := k.kubectl("", append([]string{"delete", "jobs", "--cascade=orphan"}, which...)...); err != nil {
		k.t.Fatalf("%v: %s", err, out)
	}
	names, err := k.kubectl("", pods...)
	check(k.t, err)
	for name := range strings.FieldsSeq(names) {
		k.kubectl("", "patch", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		k.kubectl("", "delete", name, "--force", "--grace-period=0", "--wait=false")
	}
}

// clear takes all jobs and pods away.
func (k *controlPlane) clear() {
	k.t.Helper()
	k.remove("")
	k.wait("no pods", time.Minute, func() bool {
		out, err := k.kubectl("", "get", "pods,resourceclaims", "-o", "name")
		return err == nil && !strings.Contains(out, "/")
	})
}
