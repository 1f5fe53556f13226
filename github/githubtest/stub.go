// Package githubtest is a stand-in for the part of GitHub's REST API that comments need.
package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// Token is the one that the stub lets in.
const Token = "token-of-the-test"

// A Comment is one on the pull request OWNER/REPO#7 of the stub.
type Comment struct {
	ID    int64
	Body  string
	Login string
	Bot   bool
}

// A Stub is a server with one pull request. Its fields may be set before a request.
type Stub struct {
	URL string

	mu       sync.Mutex
	comments []Comment
	requests []string // method and path of each
	answers  []func(w http.ResponseWriter) bool
}

// New starts a stub that ends with the test.
func New(t *testing.T) *Stub {
	s := &Stub{}
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Add puts a comment on the pull request.
func (s *Stub) Add(c Comment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ID = int64(len(s.comments) + 1)
	s.comments = append(s.comments, c)
}

// Comments returns what is on the pull request.
func (s *Stub) Comments() []Comment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Comment(nil), s.comments...)
}

// Requests returns and forgets the requests so far.
func (s *Stub) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.requests
	s.requests = nil
	return out
}

// Answer makes the next requests be answered by these first; one that returns false leaves the request
// to the stub.
func (s *Stub) Answer(with ...func(w http.ResponseWriter) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, with...)
}

// Pass leaves a request to the stub.
func Pass(http.ResponseWriter) bool { return false }

// Status answers with a status.
func Status(code int, message string) func(http.ResponseWriter) bool {
	return func(w http.ResponseWriter) bool { return refuse(w, code, message) }
}

// Forbidden answers as to the token of a fork.
func Forbidden(w http.ResponseWriter) bool {
	return refuse(w, http.StatusForbidden, "Resource not accessible by integration")
}

// RateLimited answers that one should wait.
func RateLimited(wait time.Duration) func(http.ResponseWriter) bool {
	return func(w http.ResponseWriter) bool {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds())))
		return refuse(w, http.StatusForbidden, "You have exceeded a secondary rate limit")
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
	if len(s.answers) > 0 {
		next := s.answers[0]
		s.answers = s.answers[1:]
		if next(w) {
			return
		}
	}
	if r.Header.Get("Authorization") != "Bearer "+Token || r.Header.Get("User-Agent") == "" {
		refuse(w, http.StatusUnauthorized, "Bad credentials")
		return
	}
	const list = "/repos/owner/repo/issues/7/comments"
	var body struct{ Body string }
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Body == "" || utf8.RuneCountInString(body.Body) > 65536 {
			refuse(w, http.StatusUnprocessableEntity, "Validation Failed")
			return
		}
	}
	switch id, one := strings.CutPrefix(r.URL.Path, "/repos/owner/repo/issues/comments/"); {
	case r.Method == http.MethodGet && r.URL.Path == "/user":
		json.NewEncoder(w).Encode(map[string]string{"login": "somebody"})
	case r.Method == http.MethodGet && r.URL.Path == list:
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		out := []any{}
		for i := (page - 1) * 100; i >= 0 && i < min(page*100, len(s.comments)); i++ {
			out = append(out, s.json(i))
		}
		json.NewEncoder(w).Encode(out)
	case r.Method == http.MethodPost && r.URL.Path == list:
		s.comments = append(s.comments, Comment{ID: int64(len(s.comments) + 1), Body: body.Body, Login: "github-actions[bot]", Bot: true})
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(s.json(len(s.comments) - 1))
	case r.Method == http.MethodPatch && one:
		n, _ := strconv.Atoi(id)
		if n < 1 || n > len(s.comments) {
			refuse(w, http.StatusNotFound, "Not Found")
			return
		}
		s.comments[n-1].Body = body.Body
		json.NewEncoder(w).Encode(s.json(n - 1))
	default:
		refuse(w, http.StatusNotFound, "Not Found")
	}
}

func (s *Stub) json(i int) map[string]any {
	c := s.comments[i]
	kind := "User"
	if c.Bot {
		kind = "Bot"
	}
	return map[string]any{
		"id": c.ID, "body": c.Body, "html_url": fmt.Sprintf("https://github.example/owner/repo/pull/7#issuecomment-%d", c.ID),
		"user": map[string]string{"login": c.Login, "type": kind},
	}
}
