package snapshot

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/race"
)

// bombs are files that are small when packed, and ask for much: each writes
// about so many bytes.
var bombs = []struct {
	name  string
	bytes int
	write func(w io.Writer, n int)
	want  string // of the refusal; "" where the file is read
}{
	{"numbers in a list", 160 << 20, func(w io.Writer, n int) {
		io.WriteString(w, "\x80\x04](")
		repeat(w, "K\x01", n/2)
		io.WriteString(w, "e.")
	}, "its top is no dict"},
	{"numbers in a list in a dict", 80 << 20, func(w io.Writer, n int) {
		io.WriteString(w, "\x80\x04}("+str("x")+"](")
		repeat(w, "K\x01", n/2)
		io.WriteString(w, "eu.")
	}, "wait to become part"},
	{"long strings", 120 << 20, func(w io.Writer, n int) {
		io.WriteString(w, "\x80\x04}("+str("x")+"](")
		for i := range n / (15 << 20) {
			io.WriteString(w, "X"+u32(15<<20)+string(rune('a'+i)))
			repeat(w, "\x00", 15<<20-1)
		}
		io.WriteString(w, "eu.")
	}, "wait to become part"},
	{"one string again and again", 120 << 20, func(w io.Writer, n int) {
		io.WriteString(w, "\x80\x04}("+str("x")+"](")
		for range n / (15 << 20) {
			io.WriteString(w, "X"+u32(15<<20))
			repeat(w, "\x00", 15<<20)
		}
		io.WriteString(w, "eu.")
	}, "belong to no event"},
	{"strings, then lists", 128 << 20, func(w io.Writer, n int) {
		io.WriteString(w, "\x80\x02}("+str("x"))
		for range 8 {
			io.WriteString(w, "X"+u32(15<<20))
			repeat(w, "\x00", 15<<20)
		}
		repeat(w, "]", n/4)
	}, "belong to no event"},
	{"memo", 100 << 20, func(w io.Writer, n int) {
		io.WriteString(w, "\x80\x04}")
		repeat(w, "\x94", n)
	}, "wait to become part"},
	{"dicts in dicts", 160 << 20, func(w io.Writer, n int) {
		io.WriteString(w, "\x80\x04}("+str("x")+"](")
		repeat(w, "}", n)
	}, "containers at once"},
	{"events with a new stack each", 60 << 20, func(w io.Writer, n int) {
		known(w)
		for i := range uint32(n / 40) {
			io.WriteString(w, "}(h\x00h\x01h\x02K\x00h\x03K\x01h\x04](}(h\x05h\x01h\x06h\x01h\x07J"+u32(i)+"ueu")
		}
		io.WriteString(w, "eeu.")
	}, "wait to become part"},
	{"events with a new key each", 60 << 20, func(w io.Writer, n int) {
		known(w)
		for i := range uint32(n / 26) {
			io.WriteString(w, "}(h\x00h\x01h\x02K\x00h\x03K\x01\x8c\x04"+u32(i|0x20202020)+"K\x01u")
		}
		io.WriteString(w, "eeu.")
	}, "wait to become part"},
	{"the shortest events", 40 << 20, func(w io.Writer, n int) {
		known(w)
		for i := range uint32(n / 18) {
			io.WriteString(w, "}(h\x00h\x01h\x02J"+u32((i+1)*512&0x7fffffff)+"h\x03K\x01u")
		}
		io.WriteString(w, "eeu.")
	}, "wait to become part"},
	{"usual events", 100 << 20, func(w io.Writer, n int) {
		known(w)
		for i := range uint32(n / 80) {
			io.WriteString(w, "}\x94(h\x00h\x01h\x02"+num(int64(i)<<9)+"h\x03J"+u32(512)+"h\x08K\x00h\x09"+num(int64(i))+
				"h\x04](}(h\x05h\x01h\x06h\x01h\x07J"+u32(i%5000)+"ueu")
		}
		io.WriteString(w, "eeu.")
	}, ""},
}

// known opens a file with an empty list of segments and the trace of one device,
// and memoizes the words of events: action, "alloc", addr, size, frames, name,
// filename, line, stream, time_us.
func known(w io.Writer) {
	io.WriteString(w, "\x80\x04}("+str("words")+"(")
	for _, s := range []string{"action", "alloc", "addr", "size", "frames", "name", "filename", "line", "stream",
		"time_us"} {
		io.WriteString(w, str(s)+"\x94")
	}
	io.WriteString(w, "t"+str("segments")+"]"+str("device_traces")+"](](")
}

func repeat(w io.Writer, s string, n int) {
	chunk := strings.Repeat(s, min(n, 1<<14))
	for ; n > 0; n -= 1 << 14 {
		io.WriteString(w, chunk[:len(s)*min(n, 1<<14)])
	}
}

const bombEnv = "MEMESTIMATE_TEST_BOMB"

// TestBombChild is not a test of its own: as a child process it reads one file,
// plays it, and says what came of it.
func TestBombChild(t *testing.T) {
	path := os.Getenv(bombEnv)
	if path == "" {
		t.Skip("run by TestMemoryBound")
	}
	f, err := os.Open(path)
	must.OK(t, err)
	defer f.Close()
	s, err := Read(f, Options{})
	read := maxRSS()
	if err == nil {
		_, err = s.History(0)
	}
	fmt.Printf("bomb %d %d %q\n", read, maxRSS(), fmt.Sprint(err))
}

// What a file makes the reader take is bounded by what of it is a snapshot:
// 256 MB and four bytes for each byte that became an event.
func TestMemoryBound(t *testing.T) {
	if testing.Short() {
		t.Skip("writes and reads files of hundreds of megabytes")
	}
	if maxRSS() == 0 {
		t.Skip("the system does not tell what a process takes")
	}
	race.SkipMemory(t)
	for _, c := range bombs {
		path := filepath.Join(t.TempDir(), "bomb.gz")
		f, err := os.Create(path)
		must.OK(t, err)
		z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
		must.OK(t, err)
		w := bufio.NewWriterSize(z, 1<<16)
		c.write(w, c.bytes)
		must.OK(t, w.Flush())
		must.OK(t, z.Close())
		must.OK(t, f.Close())
		cmd := exec.Command(os.Args[0], "-test.run=^TestBombChild$")
		cmd.Env = append(os.Environ(), bombEnv+"="+path)
		start := time.Now()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %.2000s", c.name, err, out)
		}
		var read, rss int64
		var said string
		if _, err := fmt.Sscanf(string(out), "bomb %d %d %q", &read, &rss, &said); err != nil {
			t.Fatalf("%s: %q: %v", c.name, out, err)
		}
		bound := int64(256_000_000)
		if c.want == "" {
			bound += 4 * int64(c.bytes)
		}
		t.Logf("%-30s %4d MB: %4.0f ms, %4d MB read, %4d MB played: %s", c.name, c.bytes>>20,
			float64(time.Since(start).Milliseconds()), read/1e6, rss/1e6, said)
		if rss > bound {
			t.Errorf("%s: takes %d bytes, %d at most are wanted", c.name, rss, bound)
		}
		if c.want == "" && said != "<nil>" || c.want != "" && !strings.Contains(said, c.want) {
			t.Errorf("%s: says %s, wanted %q", c.name, said, c.want)
		}
	}
}

// maxRSS is the most memory that this process has had, in bytes; 0 where the
// system does not tell.
func maxRSS() int64 {
	b, _ := os.ReadFile("/proc/self/status")
	_, after, ok := bytes.Cut(b, []byte("VmHWM:"))
	if !ok {
		return 0
	}
	var n int64
	fmt.Sscan(string(after), &n)
	return n * 1024
}
