package forge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxComment is how many characters a comment may have on GitHub. GitLab takes more.
const MaxComment = 65536

// Marker is the first line of the comment that is kept up to date; a key tells several apart.
func Marker(key string) string {
	if key == "" {
		return "<!-- memestimate -->"
	}
	return "<!-- memestimate " + key + " -->"
}

// maxPages is how many pages of 100 comments are looked through.
const maxPages = 50

// What became of a comment.
const (
	Created   = "created"
	Updated   = "updated"
	Unchanged = "unchanged"
)

// Upsert writes the one comment of a pull request that begins with the marker: it is updated where it is there,
// else created. It returns what became of it and where it is.
//
// No request that creates a comment is sent twice without a look at what is there: a server that stores one
// and then fails would get a second.
func Upsert(ctx context.Context, t *Thread, marker, body string) (done, address string, err error) {
	body = marker + "\n" + body
	if n := utf8.RuneCountInString(body); n > MaxComment {
		return "", "", fmt.Errorf("a comment of %d characters, want %d at most", n, MaxComment)
	}
	old, err := find(ctx, t, marker)
	if err != nil {
		return "", "", err
	}
	if old != nil {
		if sameText(old.Body, body) {
			return Unchanged, t.at(old), nil
		}
		now, err := t.update(ctx, old.ID, body)
		if !errors.Is(err, errGone) {
			return Updated, t.at(&now), err
		}
		// Somebody deleted it since.
	}
	for try := 1; ; try++ {
		now, err := t.create(ctx, body)
		again, unsure := errors.Is(err, errAgain), errors.Is(err, errFailed) || errors.Is(err, ErrOffline)
		if err == nil || !again && !unsure {
			return Created, t.at(&now), err
		}
		there, lookErr := find(ctx, t, marker)
		if lookErr == nil && there != nil && sameText(there.Body, body) {
			return Created, t.at(there), nil // it had arrived
		}
		if unsure || lookErr != nil {
			return "", "", err
		}
		if try == tries {
			return "", "", ErrRateLimited
		}
	}
}

// sameText compares comments as the hosts store them: with their own line ends, and without those at the end.
func sameText(a, b string) bool {
	plain := func(s string) string { return strings.TrimRight(strings.ReplaceAll(s, "\r\n", "\n"), "\n ") }
	return plain(a) == plain(b)
}

// find returns the comment that begins with the marker and is our own: anybody can write the marker, and a token
// that may write may change other people's comments.
func find(ctx context.Context, t *Thread, marker string) (*comment, error) {
	for n := 1; n <= maxPages; n++ {
		list, more, err := t.page(ctx, n)
		if err != nil {
			return nil, err
		}
		for i := range list {
			first, _, _ := strings.Cut(strings.ReplaceAll(list[i].Body, "\r", ""), "\n")
			if first != marker || list[i].System {
				continue
			}
			self, err := t.self(ctx)
			if err != nil {
				return nil, fmt.Errorf("whether a comment is our own cannot be told: %w", err)
			}
			if list[i].author() == self {
				return &list[i], nil
			}
		}
		if !more {
			break
		}
	}
	return nil, nil
}
