// Package github keeps one comment of a pull request up to date, and writes job summaries.
package github

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxComment is how many characters a comment may have.
const MaxComment = 65536

// maxAnswer is the most that is read of an answer, in bytes: a page of 100 comments of the largest size.
const maxAnswer = 100*4*MaxComment + 1<<20

// maxPages is how many pages of 100 comments are looked through.
const maxPages = 50

// Why a comment could not be posted. A job summary is the way out of each.
var (
	ErrForbidden   = errors.New("forbidden: the token may not write comments, as in a pull request from a fork")
	ErrRateLimited = errors.New("rate limited")
	ErrOffline     = errors.New("no connection")
)

// A Client talks to GitHub's REST API. API and Token must be set.
type Client struct {
	API     string        // "https://api.github.com", without a slash at its end
	Token   string        // it goes into one header, and nowhere else
	MaxWait time.Duration // how long a rate limit may make it wait; 0 is not at all
	Timeout time.Duration // of one request; 0 is 30 seconds
	Pause   time.Duration // before a server that failed is asked again; 0 is a second
}

// A Pull is a pull request.
type Pull struct {
	Owner, Repo string
	Number      int
}

// What became of a comment.
const (
	Created   = "created"
	Updated   = "updated"
	Unchanged = "unchanged"
)

// A comment is what the API says about one.
type comment struct {
	ID   int64  `json:"id"`
	Body string `json:"body"`
	URL  string `json:"html_url"`
	User struct {
		Login string `json:"login"`
		Type  string `json:"type"`
	} `json:"user"`
}

// Marker is the first line of the comment that is kept up to date; a key tells several apart.
func Marker(key string) string {
	if key == "" {
		return "<!-- memestimate -->"
	}
	return "<!-- memestimate " + key + " -->"
}

// Upsert writes the one comment of a pull request that begins with the marker: it is updated where it is there,
// else created. It returns what became of it and where it is.
func (c *Client) Upsert(ctx context.Context, p Pull, marker, body string) (done, address string, err error) {
	body = marker + "\n" + body
	if n := utf8.RuneCountInString(body); n > MaxComment {
		return "", "", fmt.Errorf("a comment of %d characters, want %d at most", n, MaxComment)
	}
	if err := c.check(); err != nil {
		return "", "", err
	}
	old, err := c.find(ctx, p, marker)
	if err != nil {
		return "", "", err
	}
	repo := "/repos/" + url.PathEscape(p.Owner) + "/" + url.PathEscape(p.Repo)
	var out comment
	switch {
	case old == nil:
		err = c.call(ctx, http.MethodPost, fmt.Sprintf("%s/issues/%d/comments", repo, p.Number), map[string]string{"body": body}, &out)
		return Created, out.URL, err
	case old.Body == body || strings.ReplaceAll(old.Body, "\r\n", "\n") == strings.TrimRight(body, "\n"):
		return Unchanged, old.URL, nil
	}
	err = c.call(ctx, http.MethodPatch, fmt.Sprintf("%s/issues/comments/%d", repo, old.ID), map[string]string{"body": body}, &out)
	return Updated, out.URL, err
}

// check refuses to send a token where somebody could read it.
func (c *Client) check() error {
	u, err := url.Parse(c.API)
	if err != nil || u.Host == "" {
		return fmt.Errorf("%q is not the address of an API", c.API)
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme != "https" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%q is not encrypted: the token is not sent there", c.API)
	}
	return nil
}

// find returns the comment that begins with the marker and is our own: anybody can write the marker, and a token
// that may write may change other people's comments.
func (c *Client) find(ctx context.Context, p Pull, marker string) (*comment, error) {
	login, asked := "", false
	for page := 1; page <= maxPages; page++ {
		var list []comment
		path := fmt.Sprintf("/repos/%s/%s/issues/%d/comments?per_page=100&page=%d", url.PathEscape(p.Owner), url.PathEscape(p.Repo), p.Number, page)
		if err := c.call(ctx, http.MethodGet, path, nil, &list); err != nil {
			return nil, err
		}
		for i := range list {
			x := &list[i]
			first, _, _ := strings.Cut(strings.ReplaceAll(x.Body, "\r", ""), "\n")
			if first != marker {
				continue
			}
			if x.User.Type != "Bot" && !asked {
				var me struct {
					Login string `json:"login"`
				}
				if c.call(ctx, http.MethodGet, "/user", nil, &me) == nil {
					login = me.Login
				}
				asked = true
			}
			if x.User.Type == "Bot" || login != "" && x.User.Login == login {
				return x, nil
			}
		}
		if len(list) < 100 {
			return nil, nil
		}
	}
	return nil, nil
}

// tries is how often a request is sent in all.
const tries = 3

// call sends a request and decodes the answer. It is sent again where the server failed or asked to wait for
// no longer than MaxWait.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		wait, err := c.once(ctx, method, path, body, out)
		if err == nil || wait < 0 || try == tries {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// once sends a request once. wait is how long to wait before the next try, negative when there is no use
// in one.
func (c *Client) once(ctx context.Context, method, path string, body []byte, out any) (wait time.Duration, err error) {
	timeout, pause := c.Timeout, c.Pause
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	if pause == 0 {
		pause = time.Second
	}
	req, err := http.NewRequestWithContext(ctx, method, c.API+path, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	req.Header.Set("User-Agent", "memestimate")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	h := http.Client{Timeout: timeout, CheckRedirect: func(next *http.Request, before []*http.Request) error {
		if next.URL.Host != before[0].URL.Host || next.URL.Scheme != before[0].URL.Scheme || len(before) > 3 {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	resp, err := h.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the address
		}
		if method == http.MethodPost {
			pause = -1 // it may have arrived: twice is worse than not at all
		}
		return pause, fmt.Errorf("%w: %w", ErrOffline, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return -1, fmt.Errorf("%w: %w", ErrOffline, err)
	}
	if resp.StatusCode/100 != 2 {
		return c.refused(resp, data, method, pause)
	}
	if len(data) > maxAnswer {
		return -1, fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	}
	if err := json.Unmarshal(data, out); err != nil {
		return -1, fmt.Errorf("the answer is not JSON: %w", err)
	}
	return 0, nil
}

// refused makes an error of an answer that is no success.
func (c *Client) refused(resp *http.Response, data []byte, method string, pause time.Duration) (time.Duration, error) {
	var said struct {
		Message string `json:"message"`
	}
	json.Unmarshal(data, &said) // what is not JSON says nothing
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, said.Message[:min(len(said.Message), 200)])
	status := fmt.Sprintf("%d %s", resp.StatusCode, text)
	code := resp.StatusCode
	after := resp.Header.Get("Retry-After")
	limited := code == http.StatusTooManyRequests || code == http.StatusForbidden && (after != "" || resp.Header.Get("X-Ratelimit-Remaining") == "0")
	switch {
	case limited:
		wait := waitFor(resp)
		if wait > c.MaxWait {
			return -1, fmt.Errorf("%w for %v: %s", ErrRateLimited, wait.Round(time.Second), status)
		}
		return wait, fmt.Errorf("%w: %s", ErrRateLimited, status)
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusNotFound && method != http.MethodGet:
		return -1, fmt.Errorf("%w: %s", ErrForbidden, status)
	case code >= 500:
		return pause, fmt.Errorf("the server failed: %s", status)
	}
	return -1, fmt.Errorf("refused: %s", status)
}

// waitFor is how long a rate limit asks to wait: a minute where it does not say.
func waitFor(resp *http.Response) time.Duration {
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n >= 0 {
		return time.Duration(min(n, 86400)) * time.Second
	}
	if at, err := strconv.ParseInt(resp.Header.Get("X-Ratelimit-Reset"), 10, 64); err == nil && resp.Header.Get("X-Ratelimit-Remaining") == "0" {
		return max(time.Until(time.Unix(at, 0)), 0)
	}
	return time.Minute
}
