package forge

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

const (
	aaa = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	bbb = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	ccc = "cccccccccccccccccccccccccccccccccccccccc"
)

// What each host says of a job, as its documentation has it.
func TestCurrentJob(t *testing.T) {
	event := filepath.Join(t.TempDir(), "event.json")
	none := strings.Repeat("0", 40)
	for _, tt := range []struct {
		name string
		env  map[string]string
		json string
		want Job
		err  string
	}{
		{"a pull request", map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_REF": "refs/pull/12/merge", "GITHUB_SHA": aaa,
			"GITHUB_BASE_REF": "main", "GITHUB_EVENT_PATH": event},
			`{"before": "` + ccc + `", "pull_request": {"number": 12, "head": {"sha": "` + bbb +
				`"}, "base": {"ref": "main", "sha": "` + ccc + `"}}}`,
			Job{Host: OnGitHub, CI: true, Number: 12, Target: "main", Head: bbb, Merge: aaa}, ""},
		{"pull_request_target", map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_REF": "refs/heads/main",
			"GITHUB_SHA": aaa, "GITHUB_EVENT_PATH": event},
			`{"pull_request": {"number": 12, "head": {"sha": "` + bbb +
				`"}, "base": {"ref": "main"}}}`, Job{Host: OnGitHub, CI: true, Number: 12, Target: "main", Head: bbb}, ""},
		{"a push", map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_REF": "refs/heads/main", "GITHUB_EVENT_PATH": event},
			`{"before": "` + aaa + `"}`, Job{Host: OnGitHub, CI: true, Before: aaa}, ""},
		{"a push of a new branch", map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": event},
			`{"before": "` + none + `"}`, Job{Host: OnGitHub, CI: true}, ""},
		{"a merge queue", map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": event},
			`{"merge_group": {"base_sha": "` + aaa + `", "head_sha": "` + bbb + `"}}`,
			Job{Host: OnGitHub, CI: true, Before: aaa}, ""},
		{"a run with a page", map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.example",
			"GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "12"}, "",
			Job{Host: OnGitHub, CI: true, Page: "https://github.example/o/r/actions/runs/12"}, ""},
		{"a page that is none", map[string]string{"GITLAB_CI": "true",
			"CI_JOB_URL": "https://gitlab.example/o/r/-/jobs/3) [x](y"}, "", Job{Host: OnGitLab, CI: true}, ""},
		{"a job with a page", map[string]string{"GITLAB_CI": "true", "CI_JOB_URL": "https://gitlab.example/o/r/-/jobs/3"},
			"", Job{Host: OnGitLab, CI: true, Page: "https://gitlab.example/o/r/-/jobs/3"}, ""},
		{"a hostile event", map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": event},
			`{"pull_request": {"number": -3, "head": {"sha": "--upload-pack=x"}}}`, Job{Host: OnGitHub, CI: true}, ""},
		{"a broken event", map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": event}, `{`, Job{},
			"GITHUB_EVENT_PATH: "},
		{"a merge request", map[string]string{"GITLAB_CI": "true", "CI_MERGE_REQUEST_IID": "5",
			"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "CI_MERGE_REQUEST_DIFF_BASE_SHA": aaa, "CI_COMMIT_SHA": bbb},
			"", Job{Host: OnGitLab, CI: true, Number: 5, Target: "main", Start: aaa, Head: bbb}, ""},
		{"a merged result", map[string]string{"GITLAB_CI": "true", "CI_MERGE_REQUEST_IID": "5",
			"CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": ccc, "CI_COMMIT_SHA": bbb, "CI_COMMIT_BEFORE_SHA": none},
			"", Job{Host: OnGitLab, CI: true, Number: 5, Head: ccc, Merge: bbb}, ""},
		{"Azure Pipelines", map[string]string{"TF_BUILD": "True"}, "", Job{CI: true}, ""},
		{"another service", map[string]string{"CI": "true"}, "", Job{CI: true}, ""},
		{"Jenkins", map[string]string{"BUILD_NUMBER": "7", "JENKINS_URL": "https://jenkins.example"}, "", Job{CI: true}, ""},
		{"TeamCity", map[string]string{"TEAMCITY_VERSION": "2026.1"}, "", Job{CI: true}, ""},
		{"a service that is said to be none", map[string]string{"CI": "false", "BUILD_NUMBER": "7"}, "", Job{}, ""},
		{"nowhere", nil, "", Job{}, ""},
	} {
		must.Write(t, event, []byte(tt.json))
		got, err := CurrentJob(func(name string) string { return tt.env[name] })
		if tt.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.err)
			}
		} else if err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
}

// An event that never ends, or is no file, is an error and nothing that is read.
func TestEventIsAFile(t *testing.T) {
	for _, path := range []string{os.DevNull, "/dev/zero", t.TempDir()} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		job := map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": path}
		_, err := CurrentJob(func(name string) string { return job[name] })
		if err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestConnect(t *testing.T) {
	for _, tt := range []struct {
		host   string
		number int
		env    map[string]string
		want   string // of the error; "" is none
	}{
		{OnGitHub, 7, map[string]string{"GITHUB_REPOSITORY": "o/r", "GITHUB_TOKEN": "x"}, ""},
		{OnGitHub, 0, map[string]string{"GITHUB_REPOSITORY": "o/r", "GITHUB_TOKEN": "x"}, ErrNoPull.Error()},
		{OnGitHub, 7, map[string]string{"GITHUB_REPOSITORY": "o/r"}, "no GITHUB_TOKEN"},
		{OnGitHub, 7, map[string]string{"GITHUB_REPOSITORY": "o/r/../x"}, "want OWNER/NAME"},
		{OnGitLab, 7, map[string]string{"CI_PROJECT_ID": "42", "GITLAB_TOKEN": "x"}, ""},
		{OnGitLab, 7, map[string]string{"CI_PROJECT_ID": "42"}, "no GITLAB_TOKEN"},
		{OnGitLab, 7, map[string]string{"GITLAB_TOKEN": "x"}, "no CI_PROJECT_ID"},
		{"", 7, nil, "GITHUB_REPOSITORY is \"\""},
	} {
		_, err := Connect(Job{Host: tt.host, Number: tt.number}, &Client{}, func(name string) string { return tt.env[name] },
			0)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%+v: %v", tt, err)
		}
		if tt.number == 0 && !errors.Is(err, ErrNoPull) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

func TestSummary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "summary.md")
	must.OK(t, AppendSummary(path, "one\n"))
	must.OK(t, AppendSummary(path, strings.Repeat("0123456789\n", MaxSummary/11+1)+"\xff"))
	data, err := os.ReadFile(path)
	if err != nil || len(data) > MaxSummary || !strings.HasPrefix(string(data), "one\n0123456789\n") ||
		!strings.HasSuffix(string(data), "9\n") {
		t.Errorf("%v: %d bytes", err, len(data))
	}
}
