//go:build linux && kubernetes

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A controlPlane is Kubernetes without kubelets: etcd, the API server, the scheduler, and the controllers that make
// pods of jobs and claims of templates. Nodes and their GPUs are objects alone.
type controlPlane struct {
	t       *testing.T
	dir     string
	program string // memestimate
}

// freePorts returns ports that nobody listens on.
func freePorts(t *testing.T, n int) []any {
	t.Helper()
	var ports []any
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// startKubernetes starts the control plane whose programs are in the folder KUBERNETES_BIN, with etcd from the PATH.
func startKubernetes(t *testing.T) *controlPlane {
	t.Helper()
	bin := os.Getenv("KUBERNETES_BIN")
	if bin == "" {
		t.Fatal("KUBERNETES_BIN names no folder with kube-apiserver and the others: make kubernetes builds them")
	}
	program, err := exec.LookPath("memestimate")
	check(t, err)
	k := &controlPlane{t, t.TempDir(), program}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("KUBECONFIG", k.path("kubeconfig"))
	ports := freePorts(t, 3)
	etcd, peer, api := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1]), ports[2]
	write(t, k.path("tokens.csv"), `secret,admin,admin,"system:masters"`+"\n")
	write(t, k.path("kubeconfig"), fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:%d", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, api))
	out, err := exec.Command("openssl", "genrsa", "-out", k.path("sa.key"), "2048").CombinedOutput()
	if err != nil {
		t.Fatalf("openssl: %v\n%s", err, out)
	}
	out, err = exec.Command("openssl", "rsa", "-in", k.path("sa.key"), "-pubout", "-out", k.path("sa.pub")).CombinedOutput()
	if err != nil {
		t.Fatalf("openssl: %v\n%s", err, out)
	}
	// etcd ends last: an API server that has lost it hangs.
	k.start("etcd", "--data-dir", k.path("etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
		"--unsafe-no-fsync")
	k.start("kube-apiserver", "--etcd-servers="+etcd, "--service-cluster-ip-range=10.0.0.0/24", "--cert-dir="+k.path("certs"),
		fmt.Sprint("--secure-port=", api), "--bind-address=127.0.0.1", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+k.path("sa.pub"), "--service-account-signing-key-file="+k.path("sa.key"),
		"--token-auth-file="+k.path("tokens.csv"), "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount")
	k.wait("the API server", 90*time.Second, func() bool {
		return exec.Command("kubectl", "get", "--raw", "/readyz").Run() == nil
	})
	k.start("kube-scheduler", "--kubeconfig="+k.path("kubeconfig"), "--leader-elect=false", "--secure-port=0")
	k.start("kube-controller-manager", "--kubeconfig="+k.path("kubeconfig"), "--leader-elect=false", "--secure-port=0",
		"--controllers=job-controller,resourceclaim-controller,garbage-collector-controller")
	return k
}

func (k *controlPlane) path(name string) string { return filepath.Join(k.dir, name) }

// start starts a server, whose log the test shows when it fails, and ends it with the test, the last one first.
func (k *controlPlane) start(name string, args ...string) {
	t := k.t // which a subtest takes the place of later
	t.Helper()
	log, err := os.Create(k.path(name + ".log"))
	check(t, err)
	c := exec.Command(name, args...)
	c.Stdout, c.Stderr = log, log
	check(t, c.Start())
	t.Cleanup(func() {
		c.Process.Signal(os.Interrupt)
		patience := time.AfterFunc(5*time.Second, func() { c.Process.Kill() })
		c.Wait()
		patience.Stop()
		log.Close()
		if b, err := os.ReadFile(k.path(name + ".log")); err == nil && t.Failed() {
			t.Logf("%s: ...%s", name, b[max(len(b)-2000, 0):])
		}
	})
}

func (k *controlPlane) wait(what string, limit time.Duration, ok func() bool) {
	k.t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			k.t.Fatalf("%s: not within %v", what, limit)
		}
	}
}

// kubectl runs kubectl with an input and returns what it says.
func (k *controlPlane) kubectl(in string, args ...string) (string, error) {
	c := exec.Command("kubectl", args...)
	c.Stdin = strings.NewReader(in)
	out, err := c.CombinedOutput()
	return string(out), err
}

func (k *controlPlane) apply(manifest string) {
	k.t.Helper()
	if out, err := k.kubectl(manifest, "apply", "-f", "-"); err != nil {
		k.t.Fatalf("kubectl apply: %v\n%s\n%s", err, out, manifest)
	}
}

// manifest is what memestimate k8s prints; the API server itself finds nothing wrong with it.
func (k *controlPlane) manifest(args ...string) string {
	k.t.Helper()
	c := exec.Command(k.program, append([]string{"k8s"}, args...)...)
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		k.t.Fatalf("k8s %v: %v\n%s", args, err, said.String())
	}
	if answer, err := k.kubectl(string(out), "apply", "--dry-run=server", "-f", "-"); err != nil {
		k.t.Errorf("k8s %v: the API server says %v\n%s\n%s", args, err, answer, out)
	}
	return string(out)
}

// node makes a node: with GPUs of dynamic resource allocation, or with those of the device plugin and the labels of
// GPU feature discovery.
func (k *controlPlane) node(name, product string, mib, gpus int, plugin bool) {
	k.t.Helper()
	resources, labels := `"cpu":"64","memory":"256Gi","pods":"100"`, ""
	if plugin {
		resources += fmt.Sprintf(`,"nvidia.com/gpu":"%d"`, gpus)
		labels = fmt.Sprintf(`, nvidia.com/gpu.memory: "%d", nvidia.com/gpu.product: %s`, mib, strings.ReplaceAll(product, " ",
			"-"))
	}
	k.apply(fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {kubernetes.io/hostname: %[1]s%s}}\n", name,
		labels))
	patch := fmt.Sprintf(`{"status":{"capacity":{%[1]s},"allocatable":{%[1]s},"conditions":[{"type":"Ready","status":"True"}]}}`,
		resources)
	for _, p := range [][]string{{"--subresource=status", patch}, {"--type=merge", `{"spec":{"taints":null}}`}} {
		if out, err := k.kubectl("", "patch", "node", name, p[0], "-p", p[1]); err != nil {
			k.t.Fatalf("%v: %s", err, out)
		}
	}
	if plugin {
		return
	}
	slice := fmt.Sprintf(`apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: %[1]s-gpus}
spec:
  driver: gpu.nvidia.com
  nodeName: %[1]s
  pool: {name: %[1]s, generation: 1, resourceSliceCount: 1}
  devices:
`, name)
	for i := range gpus {
		slice += fmt.Sprintf(`  - name: gpu-%d
    attributes: {type: {string: gpu}, productName: {string: %s}}
    capacity: {memory: {value: %dMi}}
`, i, product, mib)
	}
	k.apply(slice + "  - {name: no-gpu, attributes: {type: {string: gpu}}}\n") // one that does not say how much it has
}

// placed returns the node of each pod, by the name of its job or its own; "" where it has none.
func (k *controlPlane) placed() map[string]string {
	k.t.Helper()
	out, err := k.kubectl("", "get", "pods", "-o", "json")
	check(k.t, err)
	var pods struct {
		Items []struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Spec   struct{ NodeName string }
			Status struct{ Conditions []struct{ Reason string } }
		}
	}
	check(k.t, json.Unmarshal([]byte(out), &pods))
	at := map[string]string{}
	for _, p := range pods.Items {
		name := p.Metadata.Labels["batch.kubernetes.io/job-name"]
		if name == "" {
			name = p.Metadata.Name
		}
		at[name] = p.Spec.NodeName
		if at[name] == "" && (len(p.Status.Conditions) == 0 || p.Status.Conditions[0].Reason != "Unschedulable") {
			delete(at, name) // nobody has looked at it yet
		}
	}
	return at
}

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
		check(t, err)
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
		check(t, json.Unmarshal([]byte(out), &claims))
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
		for _, way := range [][]string{nil, {"--device-plugin"}, {"--device-plugin", "--resource", "nvidia.com/mig-3g.40gb"}} {
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

	t.Run("webhook", func(t *testing.T) {
		k.t = t
		k.webhook()
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

// webhook has the API server ask the program's admission webhook, by the configuration that the documents show.
func (k *controlPlane) webhook() {
	t := k.t
	t.Helper()
	cert, key, certificate := tlsFiles(t, k.dir)
	listen := fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
	c := exec.Command(k.program, "webhook", "--listen", listen, "--tls-cert", cert, "--tls-key", key)
	check(t, c.Start())
	defer c.Process.Kill()
	shown, err := os.ReadFile("../../docs/cluster/webhook.yaml")
	check(t, err)
	configuration := func(policy string) {
		t.Helper()
		text := strings.Replace(string(shown), "service: {namespace: memestimate, name: memestimate, path: /mutate}",
			fmt.Sprintf("{url: 'https://%s/mutate', caBundle: %s}", listen, base64.StdEncoding.EncodeToString(certificate)), 1)
		text = strings.Replace(text, "clientConfig:\n      {", "clientConfig: {", 1)
		text = strings.Replace(text, "failurePolicy: Ignore", "failurePolicy: "+policy, 1)
		k.apply(text)
	}
	number := 0
	create := func(annotations string) (pod, said string, err error) {
		number++
		name := fmt.Sprint("asks-", number)
		said, err = k.kubectl(fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, annotations: {%s}}, "+
			"spec: {containers: [{name: main, image: busybox}]}}", name, annotations), "create", "-f", "-")
		if err == nil {
			pod, err = k.kubectl("", "get", "pod", name, "-o", "json")
		}
		return pod, said, err
	}
	configuration("Fail")
	const model = "memestimate.dev/model: resnet50, memestimate.dev/batch: '64'"
	k.wait("the webhook", 30*time.Second, func() bool { // the API server takes a moment to notice the configuration
		pod, _, err := create(model)
		return err == nil && strings.Contains(pod, `"nvidia.com/gpu": "1"`) && strings.Contains(pod, "nvidia.com/gpu.memory")
	})
	if pod, said, err := create("memestimate.dev/need: 30GiB, memestimate.dev/gpus: '2'"); err != nil ||
		!strings.Contains(pod, `"nvidia.com/gpu": "2"`) || !strings.Contains(pod, `"31743"`) {
		t.Errorf("%v: %s\n%s", err, said, pod)
	}
	if _, said, err := create("memestimate.dev/need: lots"); err == nil || !strings.Contains(said, "is not a size such as 30GiB") {
		t.Errorf("a need of lots: %v, %s", err, said)
	}
	check(t, c.Process.Kill())
	c.Wait()
	if _, said, err := create(model); err == nil || !strings.Contains(said, "failed calling webhook") {
		t.Errorf("with failurePolicy Fail, while the webhook is down: %v, %s", err, said)
	}
	if pod, said, err := create("some.other/annotation: x"); err != nil || strings.Contains(pod, "nvidia.com/gpu") {
		t.Errorf("a pod without its annotations, while the webhook is down: %v, %s", err, said)
	}
	configuration("Ignore")
	k.wait("failurePolicy Ignore", 30*time.Second, func() bool {
		pod, _, err := create(model)
		return err == nil && !strings.Contains(pod, "nvidia.com/gpu")
	})
}
