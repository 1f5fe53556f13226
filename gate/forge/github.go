//go:build !js

package forge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// A Pull is a pull request on GitHub.
type Pull struct {
	Owner, Repo string
	Number      int
}

// actionsBot is who writes with the token that a workflow is given.
const actionsBot = "github-actions[bot]"

// githubThread is the conversation of a pull request on GitHub.
type githubThread struct {
	*Client
	repo    string // address of the repository in the API
	number  int
	graphQL string
	actions bool // a workflow runs us

	login string // whose the token is; "" until somebody asks
}

// GitHub returns the conversation of a pull request. graphQL is the address of the other API, which alone knows who an
// app's token is; "" is that beside c.API. actions says that a workflow runs us.
func GitHub(c *Client, p Pull, graphQL string, actions bool) (Thread, error) {
	if graphQL == "" {
		graphQL = strings.TrimSuffix(c.API, "/v3") + "/graphql"
	}
	if err := errors.Join(c.check(c.API), c.check(graphQL)); err != nil {
		return nil, err
	}
	c.header = func(h http.Header, token string) {
		h.Set("Authorization", "Bearer "+token)
		h.Set("Accept", "application/vnd.github+json")
		h.Set("X-GitHub-Api-Version", "2022-11-28")
	}
	repo := c.API + "/repos/" + url.PathEscape(p.Owner) + "/" + url.PathEscape(p.Repo)
	return &githubThread{Client: c, repo: repo, number: p.Number, graphQL: graphQL, actions: actions}, nil
}

// githubComment is what the API says about a comment.
type githubComment struct {
	ID   int64  `json:"id"`
	Body string `json:"body"`
	URL  string `json:"html_url"`
	User struct {
		Login string `json:"login"`
	} `json:"user"`
}

func (g *githubComment) comment() comment { return comment{g.ID, g.Body, g.URL, g.User.Login} }

func (t *githubThread) page(ctx context.Context, n int) (list []comment, more bool, err error) {
	var out []githubComment
	err = t.call(ctx, http.MethodGet, fmt.Sprintf("%s/issues/%d/comments?per_page=100&page=%d", t.repo, t.number, n), nil,
		&out)
	if errors.Is(err, errGone) {
		err = fmt.Errorf("there is no pull request %d, or the token may not see it: %w", t.number, err)
	}
	for i := range out {
		list = append(list, out[i].comment())
	}
	return list, len(out) == 100, err
}

func (t *githubThread) create(ctx context.Context, body string) (comment, error) {
	var out githubComment
	err := t.call(ctx, http.MethodPost, fmt.Sprintf("%s/issues/%d/comments", t.repo, t.number),
		map[string]string{"body": body}, &out)
	return out.comment(), err
}

func (t *githubThread) update(ctx context.Context, id int64, body string) (comment, error) {
	var out githubComment
	err := t.call(ctx, http.MethodPatch, fmt.Sprintf("%s/issues/comments/%d", t.repo, id),
		map[string]string{"body": body}, &out)
	return out.comment(), err
}

// willNotSay reports whether the API answered, and keeps to itself whose the token is. A connection that ended, a
// server that failed and a rate limit say nothing of that: who took the workflow's own login for a token then would not
// know the comment of another app for ours, and write a second.
func willNotSay(err error) bool {
	return err == nil || errors.Is(err, ErrForbidden) || errors.Is(err, errGone)
}

// self asks once who the token is: a person's knows it by /user, an app's only by GraphQL. Where neither says so
// within a workflow, it is the workflow's own.
func (t *githubThread) self(ctx context.Context) (string, error) {
	if t.login != "" {
		return t.login, nil
	}
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
	var user struct {
		Login string `json:"login"`
	}
	err := t.query(ctx, t.graphQL, map[string]string{"query": "{viewer{login}}"}, &viewer)
	for _, e := range viewer.Errors {
		if e.Type == "RATE_LIMITED" { // which GraphQL says in an answer of status 200
			err = ErrRateLimited
		}
	}
	if t.login = viewer.Data.Viewer.Login; t.login == "" && willNotSay(err) {
		err = t.call(ctx, http.MethodGet, t.API+"/user", nil, &user)
		t.login = user.Login
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
