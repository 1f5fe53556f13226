package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Reports for GitLab and for code scanning have every problem once, at its line of the budget file as the host knows
// the file, under a fingerprint that stays when figures change.
func TestReportsForHosts(t *testing.T) {
	top := t.TempDir()
	config := filepath.Join(top, "sub dir", "memestimate.yaml")
	write(t, filepath.Join(top, "sub dir", "x.onnx"), "no model")
	report := func(format, budget string) []byte {
		t.Helper()
		write(t, config, budget)
		var out, errs bytes.Buffer
		e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(name string) string {
			return map[string]string{"GITHUB_WORKSPACE": top}[name]
		}}
		run(t.Context(), e, []string{"check", "--annotate", "-c", config, "--format", format})
		if !strings.Contains(errs.String(), "::error file=sub dir/memestimate.yaml,line=") {
			t.Errorf("the annotations name another file: %s", errs.String())
		}
		return out.Bytes()
	}
	const budget = "settings:\n  batch: 8\nlimits:\n  device: 1GiB\nmodels:\n  - resnet18\n  - x.onnx\n"
	type problem struct {
		rule, place string
		line        int
	}
	want := []problem{{"over-budget", "sub dir/memestimate.yaml", 4}, {"not-estimated", "sub dir/memestimate.yaml", 7}}
	quality := func(data []byte) (all []problem, prints []string) {
		t.Helper()
		var entries []struct {
			Description, Fingerprint, Severity string
			Check                              string `json:"check_name"`
			Location                           struct {
				Path  string
				Lines struct{ Begin int }
			}
		}
		check(t, json.Unmarshal(data, &entries))
		for _, x := range entries {
			if x.Description == "" || x.Severity != "blocker" || len(x.Fingerprint) != 32 {
				t.Errorf("%+v", x)
			}
			all = append(all, problem{x.Check, x.Location.Path, x.Location.Lines.Begin})
			prints = append(prints, x.Fingerprint)
		}
		return all, prints
	}
	all, prints := quality(report("codequality", budget))
	if !slices.Equal(all, want) || prints[0] == prints[1] {
		t.Errorf("%v, %v, want %v", all, prints, want)
	}
	longer := strings.Replace(budget, "batch: 8", "batch: 8\n  optimizer: adamw", 1)
	if _, again := quality(report("codequality", longer)); again[1] != prints[1] {
		t.Errorf("the fingerprint changes with the line: %v, %v", prints, again)
	}
	if broken, _ := quality(report("codequality", "models: [\n")); len(broken) != 1 || broken[0].rule != "not-checked" {
		t.Errorf("%v", broken)
	}

	var s struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID, Level       string
				Message             struct{ Text string }
				PartialFingerprints map[string]string
				Locations           []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
			}
		}
	}
	check(t, json.Unmarshal(report("sarif", budget), &s))
	if s.Version != "2.1.0" || len(s.Runs) != 1 || len(s.Runs[0].Results) != 2 || len(s.Runs[0].Tool.Driver.Rules) != 3 {
		t.Fatalf("%+v", s)
	}
	for i, r := range s.Runs[0].Results {
		at := r.Locations[0].PhysicalLocation
		if r.RuleID != want[i].rule || r.Level != "error" || at.ArtifactLocation.URI != "sub%20dir/memestimate.yaml" ||
			at.Region.StartLine != want[i].line || r.PartialFingerprints["memestimate/v1"] != prints[i] ||
			!strings.Contains(r.Message.Text, []string{"over 1.00 GiB", "x.onnx"}[i]) {
			t.Errorf("%+v", r)
		}
	}
}
