package forge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// A Thread is the conversation of one pull request or merge request. The two APIs differ in addresses and names alone,
// and in how they say whose a token is.
type Thread struct {
	*Client
	name    string // "pull request 7"
	list    string // address of its comments in the API
	order   string // further words of the query for them
	one     string // what the address of a comment begins with
	change  string // the method that changes one
	address string // of its page, on GitLab

	graphQL string // address of GitHub's other API, which alone knows who an app's token is; "" on GitLab
	actions bool   // a workflow of GitHub runs us

	login string // whose the token is; "" until somebody asks
}

// GitHub returns the conversation of a pull request of a repository, "OWNER/NAME". graphQL is the address of the other
// API; "" is that beside c.API. actions says that a workflow runs us.
func GitHub(c *Client, repo string, number int, graphQL string, actions bool) (*Thread, error) {
	graphQL = cmp.Or(graphQL, strings.TrimSuffix(c.API, "/v3")+"/graphql")
	if err := errors.Join(c.check(c.API), c.check(graphQL)); err != nil {
		return nil, err
	}
	c.header = func(h http.Header, token string) {
		h.Set("Authorization", "Bearer "+token)
		h.Set("Accept", "application/vnd.github+json")
		h.Set("X-GitHub-Api-Version", "2022-11-28")
	}
	issues := c.API + "/repos/" + repo + "/issues/"
	return &Thread{Client: c, name: fmt.Sprintf("pull request %d", number), change: http.MethodPatch,
		list: fmt.Sprintf("%s%d/comments", issues, number), one: issues + "comments/", graphQL: graphQL,
		actions: actions}, nil
}

// GitLab returns the conversation of a merge request. The project is its number, or its path; page is the address of
// the project's own page, "" where it is not known.
func GitLab(c *Client, project string, number int, page string) (*Thread, error) {
	if err := c.check(c.API); err != nil {
		return nil, err
	}
	c.header = func(h http.Header, token string) { h.Set("PRIVATE-TOKEN", token) }
	notes := fmt.Sprintf("%s/projects/%s/merge_requests/%d/notes", c.API, url.PathEscape(project), number)
	if page != "" {
		page = fmt.Sprintf("%s/-/merge_requests/%d", page, number)
	}
	return &Thread{Client: c, name: fmt.Sprintf("merge request %d", number), change: http.MethodPut,
		list: notes, order: "&sort=asc&order_by=created_at", one: notes + "/", address: page}, nil
}

// A comment is one of a pull request, as GitHub or GitLab has it.
type comment struct {
	ID     int64  `json:"id"`
	Body   string `json:"body"`
	URL    string `json:"html_url"` // GitHub's
	System bool   `json:"system"`   // written by GitLab itself
	User   struct {
		Login string `json:"login"`
	} `json:"user"` // of GitHub
	Author struct {
		Username string `json:"username"`
	} `json:"author"` // of GitLab
}

func (c *comment) author() string { return cmp.Or(c.User.Login, c.Author.Username) }

// at returns the address of a comment, for people.
func (t *Thread) at(c *comment) string {
	if t.graphQL == "" {
		return fmt.Sprintf("%s#note_%d", t.address, c.ID)
	}
	return c.URL
}

// page returns the comments of a page, from 1, and whether there may be more.
func (t *Thread) page(ctx context.Context, n int) (list []comment, more bool, err error) {
	err = t.send(ctx, http.MethodGet, fmt.Sprintf("%s?per_page=100&page=%d%s", t.list, n, t.order), false, nil, &list)
	if errors.Is(err, errGone) {
		err = fmt.Errorf("there is no %s, or the token may not see it: %w", t.name, err)
	}
	return list, len(list) == 100, err
}

func (t *Thread) create(ctx context.Context, body string) (out comment, err error) {
	err = t.send(ctx, http.MethodPost, t.list, true, map[string]string{"body": body}, &out)
	return out, err
}

func (t *Thread) update(ctx context.Context, id int64, body string) (out comment, err error) {
	err = t.send(ctx, t.change, fmt.Sprintf("%s%d", t.one, id), false, map[string]string{"body": body}, &out)
	return out, err
}

// actionsBot is who writes with the token that a workflow is given.
const actionsBot = "github-actions[bot]"

// willNotSay reports whether the API answered, and keeps to itself whose the token is. A connection that ended, a
// server that failed and a rate limit say nothing of that: who took the workflow's own login for a token then would not
// know the comment of another app for ours, and write a second.
func willNotSay(err error) bool {
	return err == nil || errors.Is(err, ErrForbidden) || errors.Is(err, errGone)
}

// self asks once whose the token is: nobody else's comment is ever changed. GitHub knows a person's token by /user, an
// app's only by GraphQL. Where neither says so within a workflow, it is the workflow's own.
func (t *Thread) self(ctx context.Context) (string, error) {
	var err error
	if t.login == "" && t.graphQL != "" {
		var viewer struct {
			Data struct {
				Viewer struct {
					Login string `json:"login"`
				} `json:"viewer"`
			} `json:"data"`
			Errors []struct {
				Type string `json:"type"`
			} `json:"errors"`
		}
		err = t.send(ctx, http.MethodPost, t.graphQL, false, map[string]string{"query": "{viewer{login}}"}, &viewer)
		for _, e := range viewer.Errors {
			if e.Type == "RATE_LIMITED" { // which GraphQL says in an answer of status 200
				err = ErrRateLimited
			}
		}
		t.login = viewer.Data.Viewer.Login
	}
	if t.login == "" && willNotSay(err) {
		var user struct {
			Login    string `json:"login"`    // GitHub's
			Username string `json:"username"` // GitLab's
		}
		err = t.send(ctx, http.MethodGet, t.API+"/user", false, nil, &user)
		if t.login = user.Username; t.graphQL != "" {
			t.login = user.Login
		}
	}
	switch {
	case t.login != "":
		return t.login, nil
	case t.actions && willNotSay(err):
		t.login = actionsBot
		return t.login, nil
	case err == nil:
		err = errors.New("the API does not say whose the token is")
	}
	return "", err
}

// Connect returns the conversation of the job's pull request, or of the one with this number where it is not 0, and
// the token that the surroundings have for it.
func Connect(j Job, c *Client, getenv func(string) string, number int) (*Thread, error) {
	if number = cmp.Or(number, j.Number); number == 0 {
		return nil, ErrNoPull
	}
	api := func(name, other string) string { return cmp.Or(strings.TrimRight(getenv(name), "/"), other) }
	if j.Host == OnGitLab {
		c.API, c.Token = api("CI_API_V4_URL", "https://gitlab.com/api/v4"), getenv("GITLAB_TOKEN")
		if c.Token == "" {
			return nil, errors.New("no GITLAB_TOKEN: the token that a job is given may not write notes")
		}
		project := getenv("CI_PROJECT_ID")
		if project == "" {
			return nil, errors.New("no CI_PROJECT_ID")
		}
		return GitLab(c, project, number, getenv("CI_PROJECT_URL"))
	}
	name := getenv("GITHUB_REPOSITORY")
	if !repository().MatchString(name) {
		return nil, fmt.Errorf("GITHUB_REPOSITORY is %q, want OWNER/NAME", name)
	}
	c.API, c.Token = api("GITHUB_API_URL", "https://api.github.com"), getenv("GITHUB_TOKEN")
	if c.Token == "" {
		return nil, errors.New("no GITHUB_TOKEN")
	}
	return GitHub(c, name, number, getenv("GITHUB_GRAPHQL_URL"), getenv("GITHUB_ACTIONS") == "true")
}
