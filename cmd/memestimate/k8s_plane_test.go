//go:build linux && kubernetes

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/must"
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
		must.OK(t, err)
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
	must.OK(t, err)
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
	out, err = exec.Command("openssl", "rsa", "-in", k.path("sa.key"), "-pubout", "-out",
		k.path("sa.pub")).CombinedOutput()
	if err != nil {
		t.Fatalf("openssl: %v\n%s", err, out)
	}
	// etcd ends last: an API server that has lost it hangs.
	k.start("etcd", "--data-dir", k.path("etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
		"--unsafe-no-fsync")
	k.start("kube-apiserver", "--etcd-servers="+etcd, "--service-cluster-ip-range=10.0.0.0/24", "--cert-dir="+
		k.path("certs"),
		fmt.Sprint("--secure-port=", api), "--bind-address=127.0.0.1",
		"--service-account-issuer=https://kubernetes.default.svc",
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
	must.OK(t, err)
	c := exec.Command(name, args...)
	c.Stdout, c.Stderr = log, log
	must.OK(t, c.Start())
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
		labels = fmt.Sprintf(`, nvidia.com/gpu.memory: "%d", nvidia.com/gpu.product: %s`, mib,
			strings.ReplaceAll(product, " ", "-"))
	}
	k.apply(fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {kubernetes.io/hostname: %[1]s%s}}\n",
		name,
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
