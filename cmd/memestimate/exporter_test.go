package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// The alerts of docs/cluster fire when they should, and the dashboard's queries find what the exporter serves.
func TestAlertsAndDashboard(t *testing.T) {
	const scenes = "testdata/cluster/alerts.yml"
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		lacking(t, "no promtool of Prometheus here")
	}
	if out, err := exec.Command(promtool, "test", "rules", scenes).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	tested, err := os.ReadFile(scenes)
	check(t, err)
	alerts, err := os.ReadFile("../../docs/cluster/alerts.yml")
	check(t, err)
	data, err := os.ReadFile("../../docs/cluster/grafana.json")
	check(t, err)
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	check(t, json.Unmarshal(data, &dashboard))
	text := string(alerts)
	for _, p := range dashboard.Panels {
		for _, q := range p.Targets {
			text += q.Expr + "\n"
			if !strings.Contains(string(tested), "- expr: "+q.Expr+"\n") {
				t.Errorf("%s does not ask %q of the dashboard", scenes, q.Expr)
			}
		}
	}
	names := map[string]bool{}
	for _, g := range gauges {
		names[g.name] = true
	}
	asked := regexp.MustCompile(`\bmemestimate_\w+`).FindAllString(text, -1)
	if len(asked) < 5 {
		t.Errorf("only %q are asked for", asked)
	}
	for _, name := range asked {
		if !names[name] {
			t.Errorf("%s is asked for, and the exporter does not serve it", name)
		}
	}
}

// Prometheus's own parser reads what is written, whatever a command's name has in it.
func TestGaugesAsPrometheusReadsThem(t *testing.T) {
	const command = "a \\ b \" c \n d {e=\"f\"} \x1b é"
	var b strings.Builder
	upGauge.sample(&b, 1, nil)
	boundGauge.sample(&b, 1<<40, []string{"GPU-0", "0", "A100", "", "id", "user", command, "true"})
	parser := expfmt.NewTextParser(model.UTF8Validation)
	read, err := parser.TextToMetricFamilies(strings.NewReader(b.String()))
	check(t, err)
	if up := read[upGauge.name].GetMetric()[0]; len(up.Label) != 0 || up.GetUntyped().GetValue() != 1 {
		t.Errorf("up is read as %v", up)
	}
	bound := read[boundGauge.name].GetMetric()[0]
	got := map[string]string{}
	for _, l := range bound.Label {
		got[l.GetName()] = l.GetValue()
	}
	if len(got) != len(holdLabels) || got["command"] != command || got["uuid"] != "GPU-0" ||
		bound.GetUntyped().GetValue() != 1<<40 {
		t.Errorf("read as %v from\n%s", bound, b.String())
	}
}
