// Package forge keeps one comment of a pull request up to date on GitHub and GitLab, and reads from the environment of
// a CI job, theirs or another service's, which commit and pull request the job is about.
package forge

import (
	"bytes"
	"cmp"
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
)

// maxAnswer is the most that is read of an answer, in bytes: a page of 100 comments of the largest size.
const maxAnswer = 100*4*MaxComment + 1<<20

// Why a comment could not be posted. A job summary is the way out of each.
var (
	ErrToken       = errors.New("the token is not valid, or has expired")
	ErrForbidden   = errors.New("forbidden: the token may not write comments, as in a pull request from a fork")
	ErrLocked      = errors.New("the conversation is locked")
	ErrRateLimited = errors.New("rate limited")
	ErrOffline     = errors.New("no connection")

	errGone   = errors.New("not found")
	errFailed = errors.New("the server failed")
)

// A Client sends requests to an API. API and Token must be set.
type Client struct {
	API     string        // "https://api.github.com", without a slash at its end
	Token   string        // it goes into one header, and nowhere else
	MaxWait time.Duration // how long rate limits may make it wait in all; 0 is not at all
	Timeout time.Duration // of one request; 0 is 30 seconds
	Pause   time.Duration // before a server that failed is asked again; 0 is a second

	header func(http.Header, string) // puts the token into a request
	waited time.Duration
}

// check refuses to send a token where somebody could read it.
func (c *Client) check(api string) error {
	u, err := url.Parse(api)
	if err != nil || u.Host == "" {
		return fmt.Errorf("%q is not the address of an API", api)
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme != "https" && u.Hostname() != "localhost" &&
		(ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%q is not encrypted: the token is not sent there", api)
	}
	return nil
}

// tries is how often a request is sent in all.
const tries = 3

// A refusal is an answer that is no success, or none at all.
type refusal struct {
	err  error
	wait time.Duration // before a next try has any use
	none bool          // there is no use in one
}

// send sends a request and decodes the answer. What asks, or sets what would be set again, is sent again where the
// server failed; what creates is sent once, for it may have arrived: see Upsert. All are sent again after a rate limit
// that ends within MaxWait, for these have not arrived, but for those that create, of which the caller must look first
// whether they did.
func (c *Client) send(ctx context.Context, method, address string, creates bool, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		no := c.once(ctx, method, address, body, out)
		if no == nil {
			return nil
		}
		limited := errors.Is(no.err, ErrRateLimited)
		if no.none || try == tries || creates && !limited {
			return no.err
		}
		if limited {
			if c.waited+no.wait > c.MaxWait {
				return fmt.Errorf("%w, for %v", no.err, no.wait.Round(time.Second))
			}
			c.waited += no.wait
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(no.wait):
		}
		if creates {
			return errAgain
		}
	}
}

// errAgain says that a rate limit kept a request that creates from arriving, and is over.
var errAgain = errors.New("rate limited until now")

// once sends a request once.
func (c *Client) once(ctx context.Context, method, address string, body []byte, out any) *refusal {
	pause := cmp.Or(c.Pause, time.Second)
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return &refusal{err: err, none: true}
	}
	c.header(req.Header, c.Token)
	req.Header.Set("User-Agent", "memestimate")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	h := http.Client{Timeout: cmp.Or(c.Timeout, 30*time.Second)}
	h.CheckRedirect = func(next *http.Request, before []*http.Request) error {
		if next.URL.Host != before[0].URL.Host || next.URL.Scheme != before[0].URL.Scheme || len(before) > 3 {
			return http.ErrUseLastResponse
		}
		return nil
	}
	resp, err := h.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the address
		}
		return &refusal{err: fmt.Errorf("%w: %w", ErrOffline, err), wait: pause}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return &refusal{err: fmt.Errorf("%w: %w", ErrOffline, err), wait: pause}
	}
	if resp.StatusCode/100 != 2 {
		return refused(resp, data, method, pause)
	}
	if len(data) > maxAnswer {
		return &refusal{err: fmt.Errorf("an answer of more than %d bytes", maxAnswer), none: true}
	}
	if err := json.Unmarshal(data, out); err != nil {
		return &refusal{err: fmt.Errorf("the answer is not JSON: %w", err), none: true}
	}
	return nil
}

// refused says what an answer means that is no success.
func refused(resp *http.Response, data []byte, method string, pause time.Duration) *refusal {
	text := said(data)
	status := strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, text))
	code, lower := resp.StatusCode, strings.ToLower(text)
	none := func(err error) *refusal { return &refusal{err: fmt.Errorf("%w: %s", err, status), none: true} }
	secondary := strings.Contains(lower, "secondary rate limit") || strings.Contains(lower, "abuse detection")
	spent := resp.Header.Get("X-Ratelimit-Remaining") == "0" || resp.Header.Get("Retry-After") != ""
	switch {
	case code == http.StatusUnauthorized:
		return none(ErrToken)
	case code == http.StatusForbidden && strings.Contains(lower, "locked"):
		return none(ErrLocked)
	case code == http.StatusForbidden && strings.Contains(lower, "not accessible by"):
		return none(ErrForbidden)
	case code == http.StatusForbidden && secondary, code == http.StatusTooManyRequests && secondary:
		return &refusal{err: fmt.Errorf("%w by a secondary limit, of requests in a short time: %s", ErrRateLimited, status),
			wait: waitFor(resp)}
	case code == http.StatusTooManyRequests, code == http.StatusForbidden && spent:
		return &refusal{err: fmt.Errorf("%w: %s", ErrRateLimited, status), wait: waitFor(resp)}
	case code == http.StatusForbidden:
		return none(ErrForbidden)
	case code == http.StatusNotFound && method == http.MethodPost:
		return none(ErrForbidden) // what a token may not see is not found
	case code == http.StatusNotFound, code == http.StatusGone:
		return none(errGone)
	case code >= 500:
		return &refusal{err: fmt.Errorf("%w: %s", errFailed, status), wait: pause}
	}
	return none(errors.New("refused"))
}

// said returns the message of an answer, as far as it can be shown.
func said(data []byte) string {
	var answer struct {
		Message any    `json:"message"`
		Error   string `json:"error"`
	}
	json.Unmarshal(data, &answer) // what is not JSON says nothing
	text := answer.Error
	if answer.Message != nil {
		text = fmt.Sprint(answer.Message)
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text[:min(len(text), 200)])
}

// waitFor is how long a rate limit asks to wait: a minute, the least that GitHub wants, where it does not say.
func waitFor(resp *http.Response) time.Duration {
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n >= 0 {
		return time.Duration(min(n, 86400)) * time.Second
	}
	for _, limit := range []string{"X-Ratelimit-", "Ratelimit-"} { // GitHub's and GitLab's
		if at, err := strconv.ParseInt(resp.Header.Get(limit+"Reset"), 10, 64); err == nil &&
			resp.Header.Get(limit+"Remaining") == "0" {
			return max(time.Until(time.Unix(at, 0)), 0)
		}
	}
	return defaultWait
}

// defaultWait is how long is waited at a rate limit that does not say how long.
var defaultWait = time.Minute
