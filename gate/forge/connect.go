package forge

import (
	"errors"
	"fmt"
	"strings"
)

// Connect returns the conversation of the job's pull request, or of the one with this number where it is not 0, and
// the token that the surroundings have for it.
func Connect(j Job, c *Client, getenv func(string) string, number int) (*Thread, error) {
	if number == 0 {
		number = j.Number
	}
	if number == 0 {
		return nil, ErrNoPull
	}
	api := func(name, other string) string {
		if a := strings.TrimRight(getenv(name), "/"); a != "" {
			return a
		}
		return other
	}
	if j.Host == OnGitLab {
		c.API, c.Token = api("CI_API_V4_URL", "https://gitlab.com/api/v4"), getenv("GITLAB_TOKEN")
		if c.Token == "" {
			return nil, errors.New("no GITLAB_TOKEN: the token that a job is given may not write notes")
		}
		m := MergeRequest{Project: getenv("CI_PROJECT_ID"), Number: number}
		if m.Project == "" {
			return nil, errors.New("no CI_PROJECT_ID")
		}
		if page := getenv("CI_PROJECT_URL"); page != "" {
			m.Address = fmt.Sprintf("%s/-/merge_requests/%d", page, number)
		}
		return GitLab(c, m)
	}
	name := getenv("GITHUB_REPOSITORY")
	if !repository().MatchString(name) {
		return nil, fmt.Errorf("GITHUB_REPOSITORY is %q, want OWNER/NAME", name)
	}
	owner, repo, _ := strings.Cut(name, "/")
	c.API, c.Token = api("GITHUB_API_URL", "https://api.github.com"), getenv("GITHUB_TOKEN")
	if c.Token == "" {
		return nil, errors.New("no GITHUB_TOKEN")
	}
	return GitHub(c, Pull{owner, repo, number}, getenv("GITHUB_GRAPHQL_URL"), getenv("GITHUB_ACTIONS") == "true")
}
