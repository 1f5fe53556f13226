//go:build linux && cgo

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/must"
)

// gpuSeries is a line of dcgm-exporter.
func gpuSeries(host string, gpu int, profile string, mib int) string {
	instance := ""
	if profile != "" {
		name, id, _ := strings.Cut(profile, "/")
		instance = fmt.Sprintf(`,GPU_I_PROFILE=%q,GPU_I_ID=%q`, name, id)
	}
	return fmt.Sprintf("DCGM_FI_DEV_FB_FREE{gpu=\"%d\",UUID=\"GPU-%s-%d\",device=\"nvidia%d\",modelName=\"NVIDIA "+
		"A100-SXM4-80GB\",Hostname=%q%s} %d\n", gpu, host, gpu, gpu, host, instance, mib)
}

// TestWhere asks a real Prometheus server with series as dcgm-exporter's.
func TestWhere(t *testing.T) {
	t.Parallel()
	server, err := exec.LookPath("prometheus")
	if testing.Short() {
		t.Skip("starts a server")
	}
	if err != nil {
		lacking(t, "no Prometheus here")
	}
	program, err := exec.LookPath("memestimate")
	must.OK(t, err)
	var metrics [2]atomic.Value // of two exporters
	var targets []string
	for i := range metrics {
		metrics[i].Store("")
		exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text := metrics[i].Load().(string)
			if text == "down" {
				http.Error(w, text, http.StatusInternalServerError)
				return
			}
			fmt.Fprint(w, text)
		}))
		defer exporter.Close()
		targets = append(targets, strings.TrimPrefix(exporter.URL, "http://"))
	}
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	address := l.Addr().String()
	l.Close()
	conf := fmt.Sprintf("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n- job_name: dcgm\n  "+
		"static_configs: [{targets: ['%s']}]\n", strings.Join(targets, "','"))
	must.OK(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(conf), 0o666))
	c := exec.Command(server, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=error")
	must.OK(t, c.Start())
	defer c.Wait()
	defer c.Process.Kill()
	url := "http://" + address
	if !waitFor(func() bool { r, err := http.Get(url + "/-/ready"); return err == nil && r.StatusCode == 200 }) {
		t.Fatal("Prometheus does not come up")
	}
	where := func(args ...string) (string, int) {
		c := exec.Command(program, append([]string{"where", "--prometheus", url, "--lookback", "2m"}, args...)...)
		var b strings.Builder
		c.Stdout, c.Stderr = &b, &b
		c.Run()
		return b.String(), exitCode(c)
	}
	for _, scene := range []struct {
		name     string
		one, two string
		args     []string
		code     int
		want     []string // parts of the output, in their order
		not      string
	}{
		{"no GPU known", "", "", []string{"--need", "1GiB"}, exitDevice, []string{"knows no GPU", "hint"}, ""},
		{"one fits", gpuSeries("a", 0, "", 80000), gpuSeries("b", 0, "", 20000), []string{"--need", "30GiB"}, 0,
			[]string{"a     0    NVIDIA A100-SXM4-80GB  78.12 GiB"}, "\nb "},
		{"the tighter one first", gpuSeries("a", 0, "", 80000), gpuSeries("b", 0, "", 40000), []string{"--need", "30GiB"}, 0,
			[]string{"\nb     0", "\na     0"}, ""},
		{"none fits", gpuSeries("a", 0, "", 20000), gpuSeries("b", 0, "", 30000), []string{"--need", "40GiB"}, exitNo,
			[]string{"no GPU of 2 has 40.00 GiB available: b GPU 0 comes closest with 29.30 GiB, 10.70 GiB short"}, ""},
		{"MIG instances, not their GPU", gpuSeries("a", 0, "", 80000) + gpuSeries("a", 0, "1g.10gb/7", 9728) +
			gpuSeries("a", 0, "3g.40gb/1", 40192), gpuSeries("b", 0, "", 100),
			[]string{"--need", "30GiB"}, 0, []string{"a     0 MIG 3g.40gb 1"}, "78.12"},
		{"a model", gpuSeries("a", 0, "", 80000), gpuSeries("b", 0, "", 3000), []string{"resnet50", "--batch", "64"}, 0,
			[]string{"\na     0"}, "\nb "},
		{"a host falls silent", gpuSeries("a", 0, "", 80000), "down", []string{"--need", "1GiB"}, 0,
			[]string{"\na     0", "b GPU 0 is not counted: silent for"}, ""},
		{"all fall silent", "down", "down", []string{"--need", "1GiB"}, exitNo,
			[]string{" GPU 0 is not counted: silent for", " GPU 0 is not counted: silent for", "no GPU of"}, ""},
		{"of another type", gpuSeries("a", 0, "", 80000), gpuSeries("b", 0, "", 80000),
			[]string{"--need", "1GiB", "--gpu-type", "H100"}, exitDevice, []string{"knows no GPU that could be asked for"}, ""},
		{"it did not fit before", gpuSeries("a", 0, "", 90000), gpuSeries("b", 0, "", 80000), []string{"--need", "85GiB"}, 0,
			[]string{"\na     0", "87.89 GiB"}, "more than"},
	} {
		metrics[0].Store(scene.one)
		metrics[1].Store(scene.two)
		var out string
		var code int
		ok := waitFor(func() bool { // for the next scrapes
			time.Sleep(250 * time.Millisecond)
			out, code = where(scene.args...)
			at := 0
			for _, w := range scene.want {
				i := strings.Index(out[at:], w)
				if i < 0 {
					return false
				}
				at += i
			}
			return code == scene.code && (scene.not == "" || !strings.Contains(out, scene.not))
		})
		if !ok {
			t.Errorf("%s: exit code %d, want %d; wanted %q, not %q\n%s", scene.name, code, scene.code, scene.want, scene.not,
				out)
		}
	}
	answer, err := exec.Command(program, "where", "--prometheus", url, "--need", "1GiB", "--format", "json").Output()
	must.OK(t, err)
	must.OK(t, holds("where", answer))
	out, code := where("--need", "1GiB", "--max-age", "1ns")
	if code != exitNo || !strings.Contains(out, "the last sample is") {
		t.Errorf("stale: exit code %d: %s", code, out)
	}
	c2 := exec.Command(program, "where", "--need", "1GiB", "--prometheus", "http://127.0.0.1:1")
	o, _ := c2.CombinedOutput()
	if exitCode(c2) != exitDevice || !strings.Contains(string(o), "connection refused") {
		t.Errorf("no server: exit code %d: %s", exitCode(c2), o)
	}
}
