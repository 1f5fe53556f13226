package forge

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/forgetest"
	"github.com/memestimate/memestimate/test/must"
)

func client(api string) *Client {
	return &Client{API: api, Token: forgetest.Token, MaxWait: 2 * time.Second, Pause: time.Millisecond,
		Timeout: 5 * time.Second}
}

// threads are the conversation of the stub's pull request, as each host has it.
func threads(t *testing.T, c *Client) map[string]*Thread {
	t.Helper()
	hub, err := GitHub(c, "owner/repo", 7, "", false)
	must.OK(t, err)
	other := *c
	lab, err := GitLab(&other, "42", 7, "https://gitlab.example/o/r")
	must.OK(t, err)
	return map[string]*Thread{OnGitHub: hub, OnGitLab: lab}
}

func upsert(t *testing.T, to *Thread, body string) (string, error) {
	t.Helper()
	done, address, err := Upsert(context.Background(), to, Marker(""), body)
	if err == nil && !strings.HasPrefix(address, "https://git") {
		t.Errorf("%s at %q", done, address)
	}
	return done, err
}

// There is one comment, however often it is written, and only ours is touched: not a person's, and not another bot's,
// that begins with our marker.
func TestUpsert(t *testing.T) {
	for _, host := range []string{OnGitHub, OnGitLab} {
		s := forgetest.New(t)
		s.Login = "us[bot]"
		if host == OnGitLab {
			s.Login = "project_42_bot"
		}
		for range 150 {
			s.Add(forgetest.Comment{Body: "chat", Login: "a"})
		}
		s.Add(forgetest.Comment{Body: Marker("") + "\nnot ours", Login: "mallory"})
		s.Add(forgetest.Comment{Body: Marker("") + "\nanother bot's", Login: "other[bot]"})
		s.Add(forgetest.Comment{Body: "quoting " + Marker(""), Login: s.Login})
		s.Add(forgetest.Comment{Body: "> x\n" + Marker("") + "\n", Login: s.Login})
		s.Add(forgetest.Comment{Body: Marker("other") + "\nanother key", Login: s.Login})
		before := s.Comments()
		to := threads(t, client(s.URL))[host]
		for _, step := range []struct{ body, want string }{{"one", Created}, {"two", Updated}, {"two", Unchanged},
			{"three", Updated}} {
			if done, err := upsert(t, to, step.body); err != nil || done != step.want {
				t.Fatalf("%s: %s: %s, %v, want %s", host, step.body, done, err, step.want)
			}
		}
		after := s.Comments()
		if len(after) != len(before)+1 || after[len(before)].Body != Marker("")+"\nthree" {
			t.Errorf("%s: %d comments after %d, the last one %q", host, len(after), len(before), after[len(after)-1].Body)
		}
		if !slices.Equal(before, after[:len(before)]) {
			t.Errorf("%s: a comment of somebody else changed", host)
		}
	}
}

// The comment that a token's user wrote is found again, whoever that is: a person, a workflow, an app.
func TestUpsertKnowsItself(t *testing.T) {
	for _, tt := range []struct {
		login         string
		mute, actions bool
		want          string
	}{
		{"somebody", false, false, Updated},
		{"app[bot]", false, true, Updated},
		{forgetest.Bot, true, true, Updated}, // a token that may not ask: within a workflow it is the workflow's
	} {
		s := forgetest.New(t)
		s.Login, s.Mute = tt.login, tt.mute
		s.Add(forgetest.Comment{Body: Marker("") + "\r\nold", Login: tt.login})
		to, err := GitHub(client(s.URL), "owner/repo", 7, "", tt.actions)
		must.OK(t, err)
		if done, err := upsert(t, to, "new"); err != nil || done != tt.want || len(s.Comments()) != 1 {
			t.Errorf("%+v: %s, %v, %v", tt, done, err, s.Comments())
		}
	}
	// Whose it is cannot be told: nothing is changed, and no second comment is written.
	s := forgetest.New(t)
	s.Mute = true
	s.Add(forgetest.Comment{Body: Marker("") + "\nold", Login: "x"})
	if _, err := upsert(t, threads(t, client(s.URL))[OnGitHub], "new"); !errors.Is(err, ErrForbidden) ||
		len(s.Comments()) != 1 {
		t.Errorf("%v, %v", err, s.Comments())
	}
}

// Whatever the weather, there is never a second comment.
func TestWeather(t *testing.T) {
	defer func(old time.Duration) { defaultWait = old }(defaultWait)
	defaultWait = time.Second
	type answers = []forgetest.Answer
	pass := forgetest.Pass
	for _, tt := range []struct {
		name     string
		old      bool // our comment is there already
		answers  answers
		want     error
		says     string
		posts    int
		comments int
	}{
		{"stored, then 502", false, answers{pass, forgetest.StoredThen(502)}, nil, "", 1, 1},
		{"stored, then 500", false, answers{pass, forgetest.StoredThen(500)}, nil, "", 1, 1},
		{"stored, then 504, then a failing list", false, answers{pass, forgetest.StoredThen(504), forgetest.Status(502, ""),
			pass}, nil, "", 1, 1},
		{"502 and nothing stored", false, answers{pass, forgetest.Status(502, "<html>")}, errFailed, "502", 1, 0},
		{"a list that recovers", false, answers{forgetest.Status(502, "<html>"), forgetest.Status(503, "")}, nil, "", 1, 1},
		{"an update that recovers", true, answers{pass, pass, forgetest.StoredThen(502)}, nil, "", 0, 1},
		{"forbidden to read", false, answers{forgetest.Forbidden}, ErrForbidden, "", 0, 0},
		{"forbidden to write", false, answers{pass, forgetest.Forbidden}, ErrForbidden, "", 1, 0},
		{"forbidden to update", true, answers{pass, pass, forgetest.Forbidden}, ErrForbidden, "", 0, 1},
		{"locked", false, answers{pass, forgetest.Locked}, ErrLocked, "issue is locked", 1, 0},
		{"a token that is not valid", false, answers{forgetest.Status(401, "Bad credentials")}, ErrToken, "", 0, 0},
		{"no such pull request", false, answers{forgetest.Status(404, "Not Found")}, errGone, "the token may not see it", 0,
			0},
		{"a long rate limit", false, answers{forgetest.RateLimited(time.Hour)}, ErrRateLimited, "for 1h0m0s", 0, 0},
		{"a rate limit that does not end", false, answers{forgetest.RateLimited(0), forgetest.RateLimited(0),
			forgetest.RateLimited(0)}, ErrRateLimited, "", 0, 0},
		{"rate limits that end", false, answers{forgetest.RateLimited(time.Second), pass, forgetest.RateLimited(0)}, nil, "",
			2, 1},
		{"a secondary limit that does not say how long", false, answers{pass, forgetest.Secondary}, nil, "", 2, 1},
		{"a secondary limit that is longer than we wait", false,
			answers{forgetest.Secondary, forgetest.Secondary, forgetest.Secondary}, ErrRateLimited, "by a secondary limit", 0,
			0},
	} {
		s := forgetest.New(t)
		if tt.old {
			s.Add(forgetest.Comment{Body: Marker("") + "\nold", Login: forgetest.Bot})
		}
		s.Answer(tt.answers...)
		_, err := upsert(t, threads(t, client(s.URL))[OnGitHub], "x")
		if !errors.Is(err, tt.want) || tt.want == nil && err != nil || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		posts := 0
		for _, r := range s.Requests() {
			if strings.HasPrefix(r, "POST /repos") {
				posts++
			}
		}
		if posts != tt.posts || len(s.Comments()) != tt.comments {
			t.Errorf("%s: %d requests to create, want %d; %d comments, want %d", tt.name, posts, tt.posts, len(s.Comments()),
				tt.comments)
		}
		if err != nil && strings.Contains(err.Error(), forgetest.Token) {
			t.Errorf("%s: the error tells the token: %v", tt.name, err)
		}
	}
}

// A comment that somebody deletes between the look and the update is created anew.
func TestUpdateOfWhatIsGone(t *testing.T) {
	s := forgetest.New(t)
	s.Add(forgetest.Comment{Body: Marker("") + "\nold", Login: forgetest.Bot})
	s.Answer(forgetest.Pass, forgetest.Pass, func(w http.ResponseWriter,
		_ func()) bool {
		return forgetest.Status(404, "Not Found")(w, nil)
	})
	if done, err := upsert(t, threads(t, client(s.URL))[OnGitHub], "new"); err != nil || done != Created {
		t.Errorf("%s, %v", done, err)
	}
}

func TestOffline(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer slow.Close()
	for _, c := range []*Client{{API: "http://127.0.0.1:1", Token: "x", Pause: time.Millisecond},
		{API: slow.URL, Token: "x", Pause: time.Millisecond, Timeout: 50 * time.Millisecond}} {
		for host, to := range threads(t, c) {
			if _, err := upsert(t, to, "x"); !errors.Is(err, ErrOffline) {
				t.Error(host, err)
			}
		}
	}
}

// The token goes nowhere but to the API.
func TestTokenStays(t *testing.T) {
	for _, api := range []string{"http://api.example.com", "", "nonsense", "ftp://127.0.0.1.example.com"} {
		c := &Client{API: api, Token: "x"}
		if _, err := GitHub(c, "o/r", 1, "", false); err == nil {
			t.Errorf("GitHub at %q", api)
		}
		if _, err := GitLab(c, "1", 1, ""); err == nil {
			t.Errorf("GitLab at %q", api)
		}
		if _, err := GitHub(&Client{API: "https://api.github.com", Token: "x"}, "o/r", 1,
			"http://elsewhere.example.com/graphql", false); err == nil {
			t.Error("the token would go to another API in the clear")
		}
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("asked elsewhere, with %q", r.Header)
	}))
	defer elsewhere.Close()
	moved := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusMovedPermanently))
	defer moved.Close()
	for host, to := range threads(t, &Client{API: moved.URL, Token: "x"}) {
		if _, err := upsert(t, to, "x"); err == nil {
			t.Errorf("%s: a redirect elsewhere is followed", host)
		}
	}
}

func TestTooLong(t *testing.T) {
	s := forgetest.New(t)
	if _, err := upsert(t, threads(t, client(s.URL))[OnGitHub], strings.Repeat("x", MaxComment)); err == nil ||
		len(s.Requests()) != 0 {
		t.Error(err)
	}
}
