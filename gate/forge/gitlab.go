//go:build !js

package forge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// A MergeRequest is one on GitLab.
type MergeRequest struct {
	Project string // its number, or its path
	Number  int    // within the project
	Address string // of its page; "" where it is not known
}

// gitlabThread is the conversation of a merge request on GitLab.
type gitlabThread struct {
	*Client
	notes   string // address of the notes in the API
	address string

	user string // whose the token is; "" until somebody asks
}

// GitLab returns the conversation of a merge request.
func GitLab(c *Client, m MergeRequest) (Thread, error) {
	if err := c.check(c.API); err != nil {
		return nil, err
	}
	c.header = func(h http.Header, token string) { h.Set("PRIVATE-TOKEN", token) }
	notes := fmt.Sprintf("%s/projects/%s/merge_requests/%d/notes", c.API, url.PathEscape(m.Project), m.Number)
	return &gitlabThread{Client: c, notes: notes, address: m.Address}, nil
}

// gitlabNote is what the API says about a comment.
type gitlabNote struct {
	ID     int64  `json:"id"`
	Body   string `json:"body"`
	System bool   `json:"system"` // written by GitLab itself
	Author struct {
		Username string `json:"username"`
	} `json:"author"`
}

func (t *gitlabThread) comment(n *gitlabNote) comment {
	return comment{n.ID, n.Body, fmt.Sprintf("%s#note_%d", t.address, n.ID), n.Author.Username}
}

func (t *gitlabThread) page(ctx context.Context, n int) (list []comment, more bool, err error) {
	var out []gitlabNote
	err = t.call(ctx, http.MethodGet, fmt.Sprintf("%s?per_page=100&page=%d&sort=asc&order_by=created_at", t.notes, n),
		nil, &out)
	if errors.Is(err, errGone) {
		err = fmt.Errorf("there is no such merge request, or the token may not see it: %w", err)
	}
	for i := range out {
		if !out[i].System {
			list = append(list, t.comment(&out[i]))
		}
	}
	return list, len(out) == 100, err
}

func (t *gitlabThread) create(ctx context.Context, body string) (comment, error) {
	var out gitlabNote
	err := t.call(ctx, http.MethodPost, t.notes, map[string]string{"body": body}, &out)
	return t.comment(&out), err
}

func (t *gitlabThread) update(ctx context.Context, id int64, body string) (comment, error) {
	var out gitlabNote
	err := t.call(ctx, http.MethodPut, fmt.Sprintf("%s/%d", t.notes, id), map[string]string{"body": body}, &out)
	return t.comment(&out), err
}

func (t *gitlabThread) self(ctx context.Context) (string, error) {
	if t.user != "" {
		return t.user, nil
	}
	var out struct {
		Username string `json:"username"`
	}
	err := t.call(ctx, http.MethodGet, t.API+"/user", nil, &out)
	if t.user = out.Username; err == nil && t.user == "" {
		err = errors.New("the API does not say whose the token is")
	}
	return t.user, err
}
