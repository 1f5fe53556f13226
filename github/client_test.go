package github

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/github/githubtest"
)

var pull = Pull{"owner", "repo", 7}

func client(s *githubtest.Stub) *Client {
	return &Client{API: s.URL, Token: githubtest.Token, MaxWait: 2 * time.Second, Pause: time.Millisecond, Timeout: 5 * time.Second}
}

func upsert(t *testing.T, c *Client, body string) (string, error) {
	t.Helper()
	done, address, err := c.Upsert(context.Background(), pull, Marker(""), body)
	if err == nil && !strings.HasPrefix(address, "https://github.example/") {
		t.Errorf("%s at %q", done, address)
	}
	return done, err
}

// There is one comment, however often it is written, and only ours is touched.
func TestUpsert(t *testing.T) {
	s := githubtest.New(t)
	for range 150 {
		s.Add(githubtest.Comment{Body: "chat", Login: "a"})
	}
	s.Add(githubtest.Comment{Body: Marker("") + "\nnot ours", Login: "mallory"})
	s.Add(githubtest.Comment{Body: "quoting " + Marker(""), Login: "other[bot]", Bot: true})
	s.Add(githubtest.Comment{Body: "> x\n" + Marker("") + "\n", Login: "other[bot]", Bot: true})
	s.Add(githubtest.Comment{Body: Marker("other") + "\nanother key", Login: "github-actions[bot]", Bot: true})
	before := s.Comments()
	c := client(s)
	for _, step := range []struct{ body, want string }{{"one", Created}, {"two", Updated}, {"two", Unchanged}, {"three", Updated}} {
		if done, err := upsert(t, c, step.body); err != nil || done != step.want {
			t.Fatalf("%s: %s, %v, want %s", step.body, done, err, step.want)
		}
	}
	after := s.Comments()
	if len(after) != len(before)+1 || after[len(before)].Body != Marker("")+"\nthree" {
		t.Errorf("%d comments after %d, the last one %q", len(after), len(before), after[len(after)-1].Body)
	}
	for i := range before {
		if before[i] != after[i] {
			t.Errorf("comment %d is %q now", i, after[i].Body)
		}
	}
}

// A comment that a person's token wrote is found again by that person.
func TestUpsertAsAPerson(t *testing.T) {
	s := githubtest.New(t)
	s.Add(githubtest.Comment{Body: Marker("") + "\r\nold", Login: "somebody"})
	if done, err := upsert(t, client(s), "new"); err != nil || done != Updated || len(s.Comments()) != 1 {
		t.Errorf("%s, %v, %v", done, err, s.Comments())
	}
}

func TestFailures(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers []func(http.ResponseWriter) bool
		want    error
		n       int // requests
	}{
		{"forbidden to read", []func(http.ResponseWriter) bool{githubtest.Forbidden}, ErrForbidden, 1},
		{"forbidden to write", []func(http.ResponseWriter) bool{githubtest.Pass, githubtest.Forbidden}, ErrForbidden, 2},
		{"a long rate limit", []func(http.ResponseWriter) bool{githubtest.RateLimited(time.Hour)}, ErrRateLimited, 1},
		{"a rate limit that does not end", []func(http.ResponseWriter) bool{githubtest.RateLimited(0), githubtest.RateLimited(0), githubtest.RateLimited(0)}, ErrRateLimited, 3},
		{"a rate limit that ends", []func(http.ResponseWriter) bool{githubtest.RateLimited(time.Second), githubtest.Pass, githubtest.RateLimited(0)}, nil, 4},
		{"a server that recovers", []func(http.ResponseWriter) bool{githubtest.Status(502, "<html>"), githubtest.Status(503, "")}, nil, 4},
	} {
		s := githubtest.New(t)
		s.Answer(tt.answers...)
		_, err := upsert(t, client(s), "x")
		if !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if n := len(s.Requests()); n != tt.n {
			t.Errorf("%s: %d requests, want %d", tt.name, n, tt.n)
		}
		if err != nil && strings.Contains(err.Error(), githubtest.Token) {
			t.Errorf("%s: the error tells the token: %v", tt.name, err)
		}
	}
}

func TestOffline(t *testing.T) {
	c := &Client{API: "http://127.0.0.1:1", Token: "x", Pause: time.Millisecond}
	if _, err := upsert(t, c, "x"); !errors.Is(err, ErrOffline) {
		t.Error(err)
	}
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer slow.Close()
	c = &Client{API: slow.URL, Token: "x", Pause: time.Millisecond, Timeout: 50 * time.Millisecond}
	if _, err := upsert(t, c, "x"); !errors.Is(err, ErrOffline) {
		t.Error(err)
	}
}

// The token goes nowhere but to the API.
func TestTokenStays(t *testing.T) {
	for _, api := range []string{"http://api.example.com", "", "nonsense", "ftp://127.0.0.1.example.com"} {
		c := &Client{API: api, Token: "x"}
		if _, err := upsert(t, c, "x"); err == nil || errors.Is(err, ErrOffline) {
			t.Errorf("%q: %v", api, err)
		}
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("asked elsewhere, with %q", r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	moved := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusMovedPermanently))
	defer moved.Close()
	if _, err := upsert(t, &Client{API: moved.URL, Token: "x"}, "x"); err == nil {
		t.Error("a redirect elsewhere is followed")
	}
}

func TestTooLong(t *testing.T) {
	s := githubtest.New(t)
	if _, err := upsert(t, client(s), strings.Repeat("x", MaxComment)); err == nil || len(s.Requests()) != 0 {
		t.Error(err)
	}
}

func TestCurrentPull(t *testing.T) {
	event := filepath.Join(t.TempDir(), "event.json")
	for _, tt := range []struct {
		env  map[string]string
		json string
		n    int
		want Pull
		err  string
	}{
		{map[string]string{"GITHUB_REPOSITORY": "o/r", "GITHUB_REF": "refs/pull/12/merge"}, "", 0, Pull{"o", "r", 12}, ""},
		{map[string]string{"GITHUB_REPOSITORY": "o/r", "GITHUB_REF": "refs/heads/x", "GITHUB_EVENT_PATH": event}, `{"pull_request": {"number": 3}}`, 0, Pull{"o", "r", 3}, ""},
		{map[string]string{"GITHUB_REPOSITORY": "o/r"}, "", 5, Pull{"o", "r", 5}, ""},
		{map[string]string{"GITHUB_REPOSITORY": "o/r", "GITHUB_EVENT_PATH": event}, `{"ref": "main"}`, 0, Pull{}, ErrNoPull.Error()},
		{map[string]string{"GITHUB_REPOSITORY": "o/r"}, "", 0, Pull{}, ErrNoPull.Error()},
		{map[string]string{"GITHUB_REPOSITORY": "o/r", "GITHUB_EVENT_PATH": event}, `{`, 0, Pull{}, "GITHUB_EVENT_PATH"},
		{map[string]string{"GITHUB_REPOSITORY": "../x/y"}, "", 5, Pull{}, "want OWNER/NAME"},
		{nil, "", 5, Pull{}, "want OWNER/NAME"},
	} {
		if err := os.WriteFile(event, []byte(tt.json), 0o666); err != nil {
			t.Fatal(err)
		}
		got, err := CurrentPull(func(k string) string { return tt.env[k] }, tt.n)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%v: %v, %v", tt.env, got, err)
		}
	}
}

// A summary never grows over what GitHub takes, and is cut between lines.
func TestSummary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "summary")
	line := strings.Repeat("x", 999) + "\n"
	for range 30 {
		if err := AppendSummary(path, strings.Repeat(line, 50)); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > MaxSummary || len(data) < MaxSummary-2000 || len(data)%1000 != 0 {
		t.Errorf("%d bytes", len(data))
	}
}
