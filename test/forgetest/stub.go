// Package forgetest is a stand-in for the parts of GitHub's and GitLab's APIs that comments need.
package forgetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// Token is the one that the stub lets in.
const Token = "token-of-the-test"

// Bot is who writes with the token that a workflow is given.
const Bot = "github-actions[bot]"

// A Comment is one on the pull request OWNER/REPO#7 of the stub, or on the merge request 7 of its project 42.
type Comment struct {
	ID    int64
	Body  string
	Login string
}

// A Stub is a server with one pull request. Its fields may be set before a request.
type Stub struct {
	URL   string
	Login string // whose the token is; Bot where it is ""
	Mute  bool   // it says to nobody whose the token is

	mu       sync.Mutex
	comments []Comment
	last     int64
	requests []string // method and path of each
	answers  []Answer
}

// An Answer takes the place of the stub's own; false leaves the request to the stub. carry does what the stub would
// have done.
type Answer func(w http.ResponseWriter, carry func()) bool

// New starts a stub that ends with the test.
func New(t *testing.T) *Stub {
	s := &Stub{Login: Bot}
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Add puts a comment on the pull request.
func (s *Stub) Add(c Comment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	c.ID = s.last
	s.comments = append(s.comments, c)
}

// Delete takes a comment away.
func (s *Stub) Delete(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.comments = slices.DeleteFunc(s.comments, func(c Comment) bool { return c.ID == id })
}

// Comments returns what is on the pull request.
func (s *Stub) Comments() []Comment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.comments)
}

// Requests returns and forgets the requests so far.
func (s *Stub) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.requests
	s.requests = nil
	return out
}

// Answer makes the next requests be answered by these first.
func (s *Stub) Answer(with ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, with...)
}

// Forget takes away the answers that no request had yet.
func (s *Stub) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = nil
}

// Pass leaves a request to the stub.
func Pass(http.ResponseWriter, func()) bool { return false }

// Status answers with a status.
func Status(code int, message string) Answer {
	return func(w http.ResponseWriter, _ func()) bool { return refuse(w, code, message) }
}

// StoredThen does what is asked, and answers with a status as if it had not.
func StoredThen(code int) Answer {
	return func(w http.ResponseWriter, carry func()) bool {
		carry()
		return refuse(w, code, "Bad Gateway")
	}
}

// Answers of status 403: to the token of a fork, where the conversation is locked, and at a secondary rate limit that
// does not say how long it holds.
var (
	Forbidden = Status(http.StatusForbidden, "Resource not accessible by integration")
	Locked    = Status(http.StatusForbidden, "Unable to create comment because issue is locked.")
	Secondary = Status(http.StatusForbidden,
		"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.")
)

// RateLimited answers that one should wait.
func RateLimited(wait time.Duration) Answer {
	return func(w http.ResponseWriter, _ func()) bool {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds())))
		return refuse(w, http.StatusForbidden, "API rate limit exceeded")
	}
}

func refuse(w http.ResponseWriter, code int, message string) bool {
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]string{"message": message})
	return true
}

func (s *Stub) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	var body struct{ Body string }
	if r.Method != http.MethodGet {
		json.NewDecoder(r.Body).Decode(&body) // what is wrong with it is told below
	}
	if len(s.answers) > 0 {
		next := s.answers[0]
		s.answers = s.answers[1:]
		if next(w, func() { s.own(httptest.NewRecorder(), r, body.Body) }) {
			return
		}
	}
	s.own(w, r, body.Body)
}

// own is the stub's own answer.
func (s *Stub) own(w http.ResponseWriter, r *http.Request, body string) {
	lab := r.Header.Get("PRIVATE-TOKEN") == Token
	if !lab && r.Header.Get("Authorization") != "Bearer "+Token || r.Header.Get("User-Agent") == "" {
		refuse(w, http.StatusUnauthorized, "Bad credentials")
		return
	}
	bot := strings.HasSuffix(s.Login, "[bot]")
	list, one := "/repos/owner/repo/issues/7/comments", "/repos/owner/repo/issues/comments/"
	change := http.MethodPatch
	if lab {
		list, change = "/projects/42/merge_requests/7/notes", http.MethodPut
		one = list + "/"
	}
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/graphql" && !lab:
		if s.Mute {
			refuse(w, http.StatusNotFound, "Not Found")
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"viewer": map[string]string{"login": s.Login}}})
		return
	case r.Method == http.MethodGet && r.URL.Path == "/user":
		if s.Mute || bot {
			Forbidden(w, nil) // GitHub's answer to the token of an app
			return
		}
		json.NewEncoder(w).Encode(map[string]string{"login": s.Login, "username": s.Login})
		return
	}
	if r.Method != http.MethodGet && (body == "" || utf8.RuneCountInString(body) > 65536) {
		refuse(w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	switch id, is := strings.CutPrefix(r.URL.Path, one); {
	case r.Method == http.MethodGet && r.URL.Path == list:
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		out := []any{}
		for i := (page - 1) * 100; i >= 0 && i < min(page*100, len(s.comments)); i++ {
			out = append(out, describe(s.comments[i]))
		}
		json.NewEncoder(w).Encode(out)
	case r.Method == http.MethodPost && r.URL.Path == list:
		s.last++
		c := Comment{ID: s.last, Body: body, Login: s.Login}
		s.comments = append(s.comments, c)
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(describe(c))
	case r.Method == change && is:
		i := slices.IndexFunc(s.comments, func(c Comment) bool { return strconv.FormatInt(c.ID, 10) == id })
		if i < 0 {
			refuse(w, http.StatusNotFound, "Not Found")
			return
		}
		s.comments[i].Body = body
		json.NewEncoder(w).Encode(describe(s.comments[i]))
	default:
		refuse(w, http.StatusNotFound, "Not Found")
	}
}

// describe is what both APIs say about a comment, each under its own names.
func describe(c Comment) map[string]any {
	return map[string]any{
		"id": c.ID, "body": c.Body, "html_url": fmt.Sprintf("https://github.example/owner/repo/pull/7#issuecomment-%d", c.ID),
		"user": map[string]string{"login": c.Login}, "author": map[string]string{"username": c.Login},
	}
}
