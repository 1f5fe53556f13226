package forge

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/memestimate/memestimate/test/forgetest"
	"github.com/memestimate/memestimate/test/must"
)

// A wire passes bytes on to a server until so many have gone one way, and cuts the connection there.
type wire struct {
	url    string
	answer bool // what counts are the bytes of answers, else those of requests
	left   atomic.Int64
	dead   bool // once cut, it lets nobody in
}

func newWire(t *testing.T, to string, answer bool, after int64, dead bool) *wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	w := &wire{url: "http://" + l.Addr().String(), answer: answer, dead: dead}
	w.left.Store(after)
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", strings.TrimPrefix(to, "http://"))
			if err != nil || w.dead && w.left.Load() < 0 {
				near.Close()
				continue
			}
			go w.pass(near, far, answer)
			go w.pass(far, near, !answer)
		}
	}()
	t.Cleanup(func() { l.Close() })
	return w
}

// pass copies what comes from one end to the other; counted bytes end where none are left.
func (w *wire) pass(to, from net.Conn, counted bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		cut := false
		if before := w.left.Load(); counted && before >= 0 {
			if cut = int64(n) > before; cut {
				n = int(before)
				w.left.Store(-1)
			} else {
				w.left.Add(-int64(n))
			}
		}
		if _, wrong := to.Write(buf[:n]); wrong != nil || err != nil || cut {
			return
		}
	}
}

// However many bytes of a request or an answer arrive before the connection ends, once or for good, a comment is there
// once at most and has the old text or the new one; and the next job leaves one, with the new text.
func TestCutAtEveryByte(t *testing.T) {
	step := int64(23)
	if os.Getenv("MEMESTIMATE_MUTATIONS") != "" {
		step = 1
	}
	old, now := Marker("")+"\nold", Marker("")+"\nnew"
	cuts, told := 0, 0
	for _, host := range []string{OnGitHub, OnGitLab} {
		for _, begin := range []string{"", old} {
			for _, answer := range []bool{false, true} {
				for _, dead := range []bool{false, true} {
					for after, all := int64(0), int64(1); after < all; after += step {
						where := fmt.Sprintf("%s, %q there, answers %v, for good %v, after %d bytes", host, begin, answer, dead, after)
						t.Run(where, func(t *testing.T) { // which closes the connections
							cut, err := cutOnce(t, host, begin, now, answer, dead, after)
							if all = after + 1; cut {
								all, cuts = after+step+1, cuts+1
							}
							if err != nil {
								told++
							}
						})
					}
				}
			}
		}
	}
	t.Logf("%d connections cut; %d times that was told, else mended", cuts, told)
	if cuts < 100 || told == 0 || told == cuts {
		t.Errorf("%d connections cut, told %d times", cuts, told)
	}
}

// cutOnce posts a comment over a wire that is cut, looks at what is there, and has the next job post it again.
func cutOnce(t *testing.T, host, begin, now string, answer, dead bool, after int64) (cut bool, err error) {
	s := forgetest.New(t)
	s.Login = "app[bot]"
	if host == OnGitLab {
		s.Login = "project_42_bot"
	}
	s.Add(forgetest.Comment{Body: "chat", Login: "a"})
	if begin != "" {
		s.Add(forgetest.Comment{Body: begin, Login: s.Login})
	}
	ours := func() (list []string) {
		for _, c := range s.Comments() {
			if c.Login == s.Login {
				list = append(list, c.Body)
			}
		}
		return list
	}
	defer http.DefaultClient.CloseIdleConnections()
	w := newWire(t, s.URL, answer, after, dead)
	_, err = upsert(t, job(t, client(w.url), host), "new")
	switch got := ours(); {
	case len(got) > 1:
		t.Errorf("%d comments: %q", len(got), got)
	case err == nil && (len(got) == 0 || got[0] != now):
		t.Errorf("said to be there: %q", got)
	case begin != "" && (len(got) == 0 || got[0] != begin && got[0] != now):
		t.Errorf("neither the old text nor the new one: %q", got)
	case err != nil && strings.Contains(err.Error(), forgetest.Token):
		t.Errorf("the error tells the token: %v", err)
	}
	cut = w.left.Load() < 0
	if _, err := upsert(t, job(t, client(s.URL), host), "new"); err != nil {
		t.Errorf("the next job: %v", err)
	}
	if got := ours(); len(got) != 1 || got[0] != now {
		t.Errorf("after the next job: %q", got)
	}
	return cut, err
}

// job is the conversation as a workflow has it.
func job(t *testing.T, c *Client, host string) *Thread {
	t.Helper()
	if host == OnGitLab {
		return threads(t, c)[host]
	}
	hub, err := GitHub(c, "owner/repo", 7, "", true)
	must.OK(t, err)
	return hub
}
