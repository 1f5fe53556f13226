package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
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
