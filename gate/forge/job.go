package forge

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Hosts whose jobs are known.
const (
	OnGitHub = "GitHub"
	OnGitLab = "GitLab"
)

// ErrNoPull says that a job does not run for a pull request.
var ErrNoPull = errors.New("not run for a pull request")

// A Job is what the surroundings say of the job that we run in. Commits are full names, "" where they are not said.
type Job struct {
	Host   string // one of those above; "" outside of them
	CI     bool   // some service runs us, one of those above or another
	Number int    // of the pull request; 0 where there is none
	Target string // the branch that it is to be merged into
	Head   string // its last commit
	Merge  string // the host's own merge of both
	Start  string // the commit at which it parts from the target
	Before string // what a push found

	Default string // the branch that the repository shows
	Page    string // the job's own address on the host; "" where it is not said
}

// Pull reports whether the job runs for a pull request.
func (j *Job) Pull() bool { return j.Number > 0 }

var commitName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`) })

// commit returns the name of a commit, or "" for what is none: a push of a new branch found forty zeros.
func commit(s string) string {
	if !commitName().MatchString(s) || strings.Trim(s, "0") == "" {
		return ""
	}
	return s
}

var jobPage = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^https?://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9_.-]+)+/[0-9]+$`)
})

// page returns the address of a job, or "" for what is none, since it goes into a link.
func page(address string) string {
	if len(address) > 500 || !jobPage().MatchString(address) {
		return ""
	}
	return address
}

// CurrentJob reads the surroundings.
func CurrentJob(getenv func(string) string) (Job, error) {
	switch {
	case getenv("GITHUB_ACTIONS") == "true" || getenv("GITHUB_REPOSITORY") != "":
		return githubJob(getenv)
	case getenv("GITLAB_CI") != "":
		number, _ := strconv.Atoi(getenv("CI_MERGE_REQUEST_IID")) // what is no number is none
		j := Job{
			Host: OnGitLab, CI: true, Number: max(number, 0),
			Target: getenv("CI_MERGE_REQUEST_TARGET_BRANCH_NAME"),
			Head:   commit(getenv("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA")),
			Start:  commit(getenv("CI_MERGE_REQUEST_DIFF_BASE_SHA")),
			Before: commit(getenv("CI_COMMIT_BEFORE_SHA")), Default: getenv("CI_DEFAULT_BRANCH"),
			Page: page(getenv("CI_JOB_URL")),
		}
		if j.Head == "" { // which only a pipeline of a merged result says
			j.Head = commit(getenv("CI_COMMIT_SHA"))
		} else {
			j.Merge = commit(getenv("CI_COMMIT_SHA"))
		}
		return j, nil
	}
	return Job{CI: inService(getenv)}, nil
}

// inService reports whether some service runs us. Most set CI; what the others set is what the npm package ci-info
// goes by too. CI=false says that it is none.
func inService(getenv func(string) string) bool {
	if ci := getenv("CI"); ci != "" {
		return ci != "false"
	}
	said := []string{"BUILD_ID", "BUILD_NUMBER", "CI_APP_ID", "CI_BUILD_ID", "CI_BUILD_NUMBER", "CI_NAME",
		"CONTINUOUS_INTEGRATION", "JENKINS_URL", "RUN_ID", "TEAMCITY_VERSION", "TF_BUILD"}
	return slices.ContainsFunc(said, func(name string) bool { return getenv(name) != "" })
}

// maxEvent is the most that is read of the file that describes an event, in bytes.
const maxEvent = 32 << 20

// githubJob reads the event's file, and what a reference such as refs/pull/7/merge says.
func githubJob(getenv func(string) string) (Job, error) {
	j := Job{
		Host: OnGitHub, CI: true, Target: getenv("GITHUB_BASE_REF"),
		Page: page(getenv("GITHUB_SERVER_URL") + "/" + getenv("GITHUB_REPOSITORY") + "/actions/runs/" +
			getenv("GITHUB_RUN_ID")),
	}
	if text, ok := strings.CutPrefix(getenv("GITHUB_REF"), "refs/pull/"); ok {
		number, kind, _ := strings.Cut(text, "/")
		if n, err := strconv.Atoi(number); err == nil && n > 0 {
			j.Number = n
		}
		if kind == "merge" {
			j.Merge = commit(getenv("GITHUB_SHA"))
		}
	}
	path := getenv("GITHUB_EVENT_PATH")
	if path == "" {
		return j, nil
	}
	st, err := os.Stat(path)
	switch {
	case err != nil:
	case !st.Mode().IsRegular(): // a device may never end, and a pipe never begin
		err = errors.New("it is no regular file")
	case st.Size() > maxEvent:
		err = fmt.Errorf("%d bytes", st.Size())
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return j, fmt.Errorf("GITHUB_EVENT_PATH: %w", err)
	}
	var event struct {
		Before     string `json:"before"`
		Repository struct {
			Default string `json:"default_branch"`
		} `json:"repository"`
		Pull *struct {
			Number int `json:"number"`
			Head   struct {
				SHA string `json:"sha"`
			} `json:"head"`
			Base struct {
				Ref string `json:"ref"`
			} `json:"base"`
		} `json:"pull_request"`
		Group *struct {
			Base string `json:"base_sha"`
			Head string `json:"head_sha"`
		} `json:"merge_group"`
	}
	if err := json.Unmarshal(data, &event); err != nil {
		return j, fmt.Errorf("GITHUB_EVENT_PATH: %w", err)
	}
	j.Before, j.Default = commit(event.Before), event.Repository.Default
	if p := event.Pull; p != nil {
		j.Number, j.Head = max(p.Number, 0), commit(p.Head.SHA)
		if p.Base.Ref != "" {
			j.Target = p.Base.Ref
		}
		j.Before = "" // of the pull request's own branch
	}
	if g := event.Group; g != nil {
		j.Before = commit(g.Base)
	}
	return j, nil
}

var repository = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}$`)
})

// MaxSummary is how many bytes a step's summary may have: GitHub drops a longer one as a whole.
const MaxSummary = 1 << 20

// SummaryRoom returns how many bytes a step's summary can still take.
func SummaryRoom(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return MaxSummary
	}
	return max(MaxSummary-st.Size(), 0)
}

// AppendSummary adds to a step's summary, cut at a line where it would be too long.
func AppendSummary(path, text string) error {
	if room := SummaryRoom(path); int64(len(text)) > room {
		text = text[:room]
		text = text[:strings.LastIndexByte(text, '\n')+1]
	}
	return Append(path, strings.ToValidUTF8(text, "?"))
}

// Append adds text to a file in which a step of a job leaves something to others. Where only a part could be written,
// the file is left as it was: half a line would be read as another one.
func Append(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	before, err := f.Stat()
	if err == nil {
		if _, err = f.WriteString(text); err != nil && before.Mode().IsRegular() {
			err = errors.Join(err, f.Truncate(before.Size()))
		}
	}
	return errors.Join(err, f.Close())
}
