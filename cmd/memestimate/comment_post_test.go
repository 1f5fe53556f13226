package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/gate/forge"
	"github.com/memestimate/memestimate/test/forgetest"
	"github.com/memestimate/memestimate/test/must"
)

const jobBudget = "settings: {batch: 256}\nlimits:\n  growth: 500%\nmodels: nets/*.onnx\n"

// The comment is created, then updated in place; what others merged meanwhile is no growth of this pull request; a
// step has its outputs.
func TestPosted(t *testing.T) {
	j := newJob(t, jobBudget)
	log, code := j.comment()
	if code != 0 || !strings.Contains(log, "memestimate: comment created: https://github.example/") {
		t.Fatalf("code %d\n%s", code, log)
	}
	posted := j.stub.Comments()
	const within = "\n### GPU memory: within budget, +548.00 MiB (+16.40 %)\n"
	if len(posted) != 1 || !strings.HasPrefix(posted[0].Body, forge.Marker("")+within) {
		t.Fatalf("%+v", posted)
	}
	for _, want := range []string{
		"| ok | `nets/net.onnx`<br>batch 256 | ", " | +500%: ",
		"<code>nets/net.onnx</code> layers: 6 added, 6 renamed, 9 the same",
		"1 model unchanged and within budget", "| ok | `nets/other.onnx`<br>batch 256 | ", " | = | +500%: ",
		fmt.Sprintf("`%.7s...%.7s`, 9 Sep 2001 01:46 UTC, memestimate ", j.base, j.head),
		"[the job](https://github.example/owner/repo/actions/runs/12)\n",
	} {
		if !strings.Contains(posted[0].Body, want) || !strings.Contains(j.read(j.summary), want) {
			t.Errorf("the comment or the summary lacks %q:\n%s", want, posted[0].Body)
		}
	}
	want := "outcome=within\nover=0\nfailed=0\nmodels=2\n" +
		"comment=https://github.example/owner/repo/pull/7#issuecomment-1\n"
	if got := j.read(j.output); got != want {
		t.Errorf("the outputs are %q", got)
	}
	if log, code = j.comment(); code != 0 || !strings.Contains(log, "comment unchanged") {
		t.Errorf("again: code %d\n%s", code, log)
	}

	// Over budget: the same comment says so, the line of the budget file is annotated, the job fails.
	write(t, filepath.Join(j.dir, "memestimate.yaml"), strings.Replace(jobBudget, "500%", "1%", 1))
	log, code = j.comment()
	if code != exitNo || !strings.Contains(log, "comment updated") ||
		!strings.Contains(log, "memestimate.yaml,line=3,title=memestimate::nets/net.onnx (batch 256)") {
		t.Errorf("over budget: code %d\n%s", code, log)
	}
	posted = j.stub.Comments()
	if len(posted) != 1 || !strings.Contains(posted[0].Body, "### GPU memory: 1 of 2 models over budget") ||
		!strings.Contains(posted[0].Body, "- `growth` goes from `500%` to `1%` for `nets/net.onnx` and 1 more\n") {
		t.Errorf("%+v", posted)
	}

	// No way to comment: the summary has it, and the outcome is the same.
	for _, tt := range []struct {
		name, want string
		answers    []forgetest.Answer
		api        string
	}{
		{"a fork", "no comment: forbidden: ", []forgetest.Answer{forgetest.Pass, forgetest.Pass, forgetest.Forbidden}, ""},
		{"locked", "no comment: the conversation is locked: ",
			[]forgetest.Answer{forgetest.Pass, forgetest.Pass, forgetest.Locked}, ""},
		{"rate limited", "no comment: rate limited: 403 API rate limit exceeded, for 1h0m0s",
			[]forgetest.Answer{forgetest.RateLimited(time.Hour)}, ""},
		{"offline", "no comment: no connection: ", nil, "http://127.0.0.1:1"},
	} {
		os.Remove(j.summary)
		body := posted[0].Body
		write(t, filepath.Join(j.dir, "memestimate.yaml"), strings.Replace(jobBudget, "500%", "2%", 1))
		j.stub.Answer(tt.answers...)
		if tt.api != "" {
			j.env["GITHUB_API_URL"] = tt.api
		}
		log, code := j.comment()
		j.env["GITHUB_API_URL"] = j.stub.URL
		j.stub.Forget()
		if code != exitNo || !strings.Contains(log, tt.want) || !strings.Contains(log, "the job summary has it") {
			t.Errorf("%s: code %d\n%s", tt.name, code, log)
		}
		if !strings.Contains(j.read(j.summary), "### GPU memory: 1 of 2 models over budget") {
			t.Errorf("%s: the summary lacks the outcome", tt.name)
		}
		if now := j.stub.Comments(); len(now) != 1 || now[0].Body != body {
			t.Errorf("%s: the comment changed", tt.name)
		}
		if strings.Contains(log, forgetest.Token) {
			t.Errorf("%s: the log tells the token", tt.name)
		}
	}
}

// On GitLab the same comment is a note of the merge request.
func TestPostedOnGitLab(t *testing.T) {
	j := newJob(t, jobBudget)
	j.stub.Login = "project_42_bot"
	j.env = map[string]string{
		"GITLAB_CI": "true", "CI": "true", "CI_MERGE_REQUEST_IID": "7", "CI_PROJECT_ID": "42", "CI_API_V4_URL": j.stub.URL,
		"GITLAB_TOKEN":                        forgetest.Token,
		"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": j.head,
		"CI_PROJECT_URL": "https://gitlab.example/o/r",
	}
	for _, want := range []string{"comment created: https://gitlab.example/o/r/-/merge_requests/7#note_1",
		"comment unchanged"} {
		if log, code := j.comment(); code != 0 || !strings.Contains(log, want) {
			t.Errorf("code %d, want %s\n%s", code, want, log)
		}
	}
	if notes := j.stub.Comments(); len(notes) != 1 || !strings.Contains(notes[0].Body,
		fmt.Sprintf("`%.7s...%.7s`", j.base, j.head)) {
		t.Errorf("%+v", notes)
	}
}

// Whatever keeps a check from being made, in whatever state the comment is and for whatever event, is said where the
// outcome would be: the old one never stays.
func TestErrorsAreSaid(t *testing.T) {
	budget := func(text string) func(*pullJob) []string {
		return func(j *pullJob) []string {
			write(t, filepath.Join(j.dir, "memestimate.yaml"), text)
			return nil
		}
	}
	errors := []struct {
		name string
		make func(j *pullJob) []string // what else is on the command line
		code int
		says string
		line int // that is annotated
	}{
		{"broken YAML", budget("settings: {batch: 256}\nmodels: [\n"), exitInput, "did not find expected node content", 2},
		{"an unknown key", budget("settings:\n  bacth: 256\nmodels: nets/*.onnx\n"), exitInput, "settings has no key", 2},
		{"no budget file", func(j *pullJob) []string { os.Remove(filepath.Join(j.dir, "memestimate.yaml")); return nil },
			exitInput, "no such file", 1},
		{"an unknown base", func(*pullJob) []string { return []string{"--base", "nosuch"} }, exitInput, "base nosuch: ", 1},
		{"an unknown base in the file", budget("base: nosuch\n" + jobBudget), exitInput, "base nosuch: ", 1},
		{"a base that is an option", func(*pullJob) []string { return []string{"--base=-x"} }, exitUsage,
			"is not the name of one commit", 1},
		{"an unknown GPU", budget("models: nets/*.onnx\nlimits:\n  fits: h200000\n"), exitInput, "unknown GPU", 3},
		{"an unknown optimizer", budget("settings: {batch: 2,\n  optimizer: lion}\nmodels: nets/*.onnx\n"), exitInput,
			"lion", 2},
		{"a glob that matches nothing", budget("models:\n  - nothing/*.onnx\n"), exitInput, "no such file", 2},
		{"everything excluded", budget("models:\n  - path: nets/*.onnx\n    exclude: '**'\n"), exitInput, "leave no model",
			3},
		{"a pipe among the models", func(j *pullJob) []string {
			makePipe(j.T, filepath.Join(j.dir, "nets", "pipe.onnx"))
			return nil
		}, exitInput, "is a pipe", 4},
		{"a model that is none", func(j *pullJob) []string {
			write(t, filepath.Join(j.dir, "nets", "net.onnx"),
				"x")
			return nil
		}, exitInput, "1 model could not be estimated", 4},
		{"a size that is not given", budget("models: nets/*.onnx\n"), exitInput, "2 models could not be estimated", 1},
		{"no repository", func(j *pullJob) []string {
			must.OK(t, os.Rename(filepath.Join(j.dir, ".git"), filepath.Join(j.dir, "x")))
			return nil
		}, exitInput, "the base that growth is measured from", 1},
	}
	const old = "\n### GPU memory: within budget\n\nlong ago\n"
	states := []struct {
		name  string
		login string // whose comment with our marker is there; "" is none
		after int    // how many comments there are then
	}{{"no comment", "", 1}, {"our old comment", forgetest.Bot, 1}, {"somebody else's", "mallory", 2}, {"another bot's",
		"other[bot]", 2}}
	events := []struct {
		name  string
		set   func(j *pullJob)
		posts bool
	}{
		{"pull_request", func(*pullJob) {}, true},
		{"pull_request of a fork", func(j *pullJob) { j.stub.Answer(forgetest.Forbidden) }, false},
		{"push", func(j *pullJob) {
			write(t, j.env["GITHUB_EVENT_PATH"], `{"before": "`+j.base+`"}`)
			j.env["GITHUB_REF"] = "refs/heads/topic"
		}, false},
		{"schedule", func(j *pullJob) {
			write(t, j.env["GITHUB_EVENT_PATH"], `{"repository": {"default_branch": "main"}}`)
			j.env["GITHUB_REF"] = "refs/heads/main"
		}, false},
	}
	for _, x := range errors {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, jobBudget)
			args := x.make(j)
			before := j.env["GITHUB_REF"]
			event := j.read(j.env["GITHUB_EVENT_PATH"])
			for _, s := range states {
				for _, v := range events {
					name := s.name + ", " + v.name
					for _, c := range j.stub.Comments() {
						j.stub.Delete(c.ID)
					}
					if s.login != "" {
						j.stub.Add(forgetest.Comment{Body: forge.Marker("") + old, Login: s.login})
					}
					was := j.stub.Comments()
					j.env["GITHUB_REF"] = before
					write(t, j.env["GITHUB_EVENT_PATH"], event)
					os.Remove(j.summary)
					os.Remove(j.output)
					v.set(j)
					log, code := j.comment(args...)
					j.stub.Forget()
					if code != x.code {
						t.Errorf("%s: code %d, want %d\n%s", name, code, x.code, log)
					}
					if want := fmt.Sprintf("memestimate.yaml,line=%d,title=memestimate::", x.line); !strings.Contains(log, want) {
						t.Errorf("%s: no annotation %s\n%s", name, want, log)
					}
					said := []string{j.read(j.summary)}
					now := j.stub.Comments()
					if v.posts {
						if len(now) != s.after {
							t.Fatalf("%s: %d comments, want %d\n%s", name, len(now), s.after, log)
						}
						said = append(said, now[len(now)-1].Body)
					} else if fmt.Sprint(now) != fmt.Sprint(was) {
						t.Errorf("%s: the comments changed", name)
					}
					for _, text := range said {
						if !strings.Contains(text, x.says) || !strings.Contains(text, "not checked") ||
							strings.Contains(text, "ithin budget\n") {
							t.Errorf("%s: want %q in\n%s", name, x.says, text)
						}
					}
					if s.after == 2 && now[0].Body != forge.Marker("")+old {
						t.Errorf("%s: somebody else's comment is changed", name)
					}
					if !strings.HasPrefix(j.read(j.output), "outcome=failed\n") {
						t.Errorf("%s: outputs %q", name, j.read(j.output))
					}
				}
			}
		})
	}
}
