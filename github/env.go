package github

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// MaxSummary is how many bytes a step's summary may have: GitHub drops a longer one as a whole.
const MaxSummary = 1 << 20

// ErrNoPull says that a workflow does not run for a pull request.
var ErrNoPull = errors.New("not run for a pull request")

var repository = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}$`)
})

// CurrentPull returns the pull request that a workflow runs for, from its environment. number is the one that somebody
// gave, or 0.
func CurrentPull(getenv func(string) string, number int) (Pull, error) {
	name := getenv("GITHUB_REPOSITORY")
	if !repository().MatchString(name) {
		return Pull{}, fmt.Errorf("GITHUB_REPOSITORY is %q, want OWNER/NAME", name)
	}
	owner, repo, _ := strings.Cut(name, "/")
	if number == 0 {
		var err error
		if number, err = eventPull(getenv); err != nil {
			return Pull{}, err
		}
	}
	return Pull{owner, repo, number}, nil
}

// eventPull reads the number from the event's file, or from a reference such as refs/pull/7/merge.
func eventPull(getenv func(string) string) (int, error) {
	if text, ok := strings.CutPrefix(getenv("GITHUB_REF"), "refs/pull/"); ok {
		text, _, _ = strings.Cut(text, "/")
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			return n, nil
		}
	}
	path := getenv("GITHUB_EVENT_PATH")
	if path == "" {
		return 0, ErrNoPull
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("GITHUB_EVENT_PATH: %w", err)
	}
	var event struct {
		Pull *struct {
			Number int `json:"number"`
		} `json:"pull_request"`
	}
	if err := json.Unmarshal(data, &event); err != nil {
		return 0, fmt.Errorf("GITHUB_EVENT_PATH: %w", err)
	}
	if event.Pull == nil || event.Pull.Number <= 0 {
		return 0, ErrNoPull
	}
	return event.Pull.Number, nil
}

// SummaryRoom returns how many bytes a step's summary can still take.
func SummaryRoom(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return MaxSummary
	}
	return max(MaxSummary-st.Size(), 0)
}

// AppendSummary adds to a step's summary, cut at a line where it would be too long.
func AppendSummary(path, text string) error {
	if room := SummaryRoom(path); int64(len(text)) > room {
		text = text[:room]
		text = text[:strings.LastIndexByte(text, '\n')+1]
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "?")
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
