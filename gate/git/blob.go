package git

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// PointerStart begins what git-lfs keeps in the place of a file.
const PointerStart = "version https://git-lfs"

// MaxPointer is the most bytes that a pointer of git-lfs has.
const MaxPointer = 1024

// Same reports whether a file of the work tree holds what a commit has, to the byte: attributes such as ident and eol,
// which make git take different bytes for the same, do not count. What git-lfs keeps is told by its checksum.
func (r *Repo) Same(file string, in File) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	id := sha1.New()
	if r.long {
		id = sha256.New()
	}
	content := sha256.New()
	fmt.Fprintf(id, "blob %d\x00", st.Size())
	if _, err := io.Copy(io.MultiWriter(id, content), f); err != nil {
		return false, err
	}
	if hex.EncodeToString(id.Sum(nil)) == in.ID {
		return true, nil
	}
	start, err := r.start(in.ID)
	if err != nil {
		return false, err
	}
	return strings.HasPrefix(start, PointerStart) && strings.Contains(start,
		"\noid sha256:"+hex.EncodeToString(content.Sum(nil))+"\n"), nil
}

// start returns the first bytes of what an object holds.
func (r *Repo) start(id string) (string, error) {
	b, err := r.blob("cat-file", "blob", id)
	if err != nil {
		return "", err
	}
	head := make([]byte, MaxPointer)
	n, readErr := io.ReadFull(b, head)
	if n > 0 || errors.Is(readErr, io.EOF) && b.Close() == nil {
		b.Close()
		return string(head[:n]), nil
	}
	return "", cmp.Or(b.Close(), readErr)
}

// Open reads what an object holds, through git-lfs where that keeps it; name says which file it is, from the folder.
// Close says whether git could read all of it.
func (r *Repo) Open(id, name string) (io.ReadCloser, error) {
	start, err := r.start(id)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(start, PointerStart) {
		return r.blob("cat-file", "--filters", "--path="+r.prefix+name, id)
	}
	return r.blob("cat-file", "blob", id)
}

// A blob is the output of a git command.
type blob struct {
	*bufio.Reader
	pipe   io.Closer
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  bool
	err    error
}

func (r *Repo) blob(args ...string) (*blob, error) {
	b := &blob{cmd: r.command(args...)}
	b.cmd.Stderr = &b.stderr
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := b.cmd.Start(); err != nil {
		return nil, complaint(args[0], err, "")
	}
	b.pipe, b.Reader = out, bufio.NewReaderSize(out, 64<<10)
	return b, nil
}

// Close ends the command, which must not wait for what nobody reads, and returns what it complained of.
func (b *blob) Close() error {
	if b.ended {
		return b.err
	}
	b.ended = true
	b.pipe.Close()
	err := b.cmd.Wait()
	if text := strings.TrimSpace(b.stderr.String()); err != nil && text != "" {
		b.err = complaint("cat-file", err, text)
	}
	return b.err
}
