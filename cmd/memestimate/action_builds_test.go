//go:build builds

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/gate/forge"
	"github.com/memestimate/memestimate/test/forgetest"
	"github.com/memestimate/memestimate/test/must"
)

var expression = regexp.MustCompile(`\$\{\{ *([^}]*?) *\}\}`)

// A runner plays the steps of action.yml as a runner of GitHub does, but for the actions of others.
type runner struct {
	*testing.T
	dir   string
	known map[string]string // of contexts, by their names in expressions
	env   []string
}

// value returns what an expression is: a name, or names that equal texts, all of them.
func (r *runner) value(expr string) string {
	yes := true
	for part := range strings.SplitSeq(expr, " && ") {
		name, want, compares := strings.Cut(part, " == ")
		v, ok := r.known[name]
		if !ok {
			r.Fatalf("action.yml asks for %s, which this runner does not know", name)
		}
		if !compares {
			return v
		}
		yes = yes && v == strings.Trim(want, "'")
	}
	if yes {
		return "true"
	}
	return "false"
}

func (r *runner) fill(text string) string {
	return expression.ReplaceAllStringFunc(text,
		func(x string) string { return r.value(expression.FindStringSubmatch(x)[1]) })
}

// play runs the steps up to the first that fails, and returns their output and the exit code.
func (r *runner) play(a action) (log string, code int) {
	r.Helper()
	for name, in := range a.Inputs {
		if _, given := r.known["inputs."+name]; !given {
			r.known["inputs."+name] = r.fill(in.Default)
		}
	}
	var out strings.Builder
	for _, s := range a.Runs.Steps {
		if s.If != "" && r.fill(s.If) != "true" || s.Run == "" {
			continue
		}
		output := filepath.Join(r.TempDir(), "output")
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", s.Run)
		cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(r.dir, r.fill(s.Directory)), &out, &out
		cmd.Env = append(append(os.Environ(), r.env...), "GITHUB_OUTPUT="+output)
		for k, v := range s.Env {
			cmd.Env = append(cmd.Env, k+"="+r.fill(v))
		}
		err := cmd.Run()
		data, _ := os.ReadFile(output) // a step without outputs writes none
		for line := range strings.Lines(string(data)) {
			name, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			r.known["steps."+s.ID+".outputs."+name] = v
		}
		if err != nil {
			return out.String(), cmd.ProcessState.ExitCode()
		}
	}
	return out.String(), 0
}

func newRunner(t *testing.T, j *pullJob) *runner {
	t.Helper()
	source, err := filepath.Abs("../..")
	must.OK(t, err)
	r := &runner{T: t, dir: j.dir, known: map[string]string{
		"github.token": forgetest.Token, "github.action_path": source, "github.action_ref": "main",
		"github.action_repository": "memestimate/memestimate",
		"runner.os":                "Linux", "runner.arch": "X64",
	}}
	for k, v := range j.env {
		if k != "GITHUB_OUTPUT" && k != "GITHUB_TOKEN" {
			r.env = append(r.env, k+"="+v)
		}
	}
	temp := t.TempDir()
	r.env = append(r.env, "RUNNER_TEMP="+temp, "RUNNER_OS=Linux", "RUNNER_ARCH=X64")
	kept := filepath.Join(temp, "memestimate-action", "go") // as a cache from a run before restores it
	must.OK(t, os.MkdirAll(kept, 0o777))
	for name, variable := range map[string]string{"mod": "GOMODCACHE", "build": "GOCACHE"} {
		out, err := exec.Command("go", "env", variable).Output()
		must.OK(t, err)
		must.OK(t, os.Symlink(strings.TrimSpace(string(out)), filepath.Join(kept, name)))
	}
	return r
}

// The steps of the action, as a runner runs them, against a stand-in for the API: a commit that is no release is
// built, the comment is posted, the outputs are those of the check.
func TestActionEndToEnd(t *testing.T) {
	j := newJob(t, jobBudget)
	r := newRunner(t, j)
	log, code := r.play(readAction(t))
	if code != 0 || !strings.Contains(log, "it is built from source") ||
		!strings.Contains(log, "memestimate: comment created: https://github.example/") {
		t.Fatalf("code %d\n%s", code, log)
	}
	posted := j.stub.Comments()
	if len(posted) != 1 || !strings.HasPrefix(posted[0].Body, forge.Marker("")+"\n### GPU memory: within budget, +") ||
		!strings.Contains(posted[0].Body, j.base[:7]+"..."+j.head[:7]) {
		t.Fatalf("%+v", posted)
	}
	if got := r.known["steps.check.outputs.outcome"] + " " + r.known["steps.check.outputs.models"]; got != "within 2" {
		t.Errorf("the outputs are %q", got)
	}
}

// The program of a release is run where its provenance is proved, and nothing is where it is not.
func TestActionRunsReleases(t *testing.T) {
	j := newJob(t, jobBudget)
	tools, program := t.TempDir(), t.TempDir()
	write(t, filepath.Join(program, "memestimate"), "#!/bin/sh\necho released: \"$@\"\n")
	write(t, filepath.Join(tools, "curl"),
		"#!/bin/sh\nwhile [ \"$1\" != --output ]; do shift; done\necho \"$3\" >\"$2.from\"\ntar -czf \"$2\" -C '"+program+
			"' memestimate\n")
	write(t, filepath.Join(tools, "gh"), "#!/bin/sh\necho \"gh $*\"\n[ -e '"+tools+"/proved' ]\n")
	for _, path := range []string{filepath.Join(program, "memestimate"), filepath.Join(tools, "curl"),
		filepath.Join(tools, "gh")} {
		must.OK(t, os.Chmod(path, 0o777))
	}
	releases := t.TempDir() // stands in for the repository of the action
	gitIn(t, releases, "init", "-q")
	gitIn(t, releases, "commit", "-qm", "x", "--allow-empty")
	gitIn(t, releases, "tag", "-a", "v1.2.3", "-m", "x")
	released := revision(t, releases, "HEAD")
	for _, tt := range []struct {
		ref, version string
		proved       bool
		code         int
		says         string
	}{
		{released, "", true, 0, "released: comment --post --annotate --fetch --config memestimate.yaml --base  --key"},
		{"v1.2.3", "", true, 0, "--signer-workflow memestimate/memestimate/.github/workflows/release.yml " +
			"--source-ref refs/tags/v1.2.3 --source-digest " + released},
		{"main", "v1.2.3", true, 0, "--source-digest " + released},
		{"main", "v1.2.4", true, 3, "there is no release v1.2.4"},
		{released, "", false, 1, "gh attestation verify"},
		{released, "latest; touch x", true, 2, "is not a release such as v1.2.3"},
	} {
		proved := filepath.Join(tools, "proved")
		os.Remove(proved)
		if tt.proved {
			write(t, proved, "")
		}
		r := newRunner(t, j)
		r.known["github.action_ref"], r.known["inputs.version"] = tt.ref, tt.version
		r.env = append(r.env, "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"),
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+releases+".insteadOf",
			"GIT_CONFIG_VALUE_0=https://github.com/memestimate/memestimate")
		log, code := r.play(readAction(t))
		if code != tt.code || !strings.Contains(log, tt.says) || tt.code != 0 && strings.Contains(log, "released: ") {
			t.Errorf("%s, %s, proved %v: code %d, want %d and %q\n%s", tt.ref, tt.version, tt.proved, code, tt.code, tt.says,
				log)
		}
	}
}
