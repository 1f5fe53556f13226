package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/test/must"
)

// bombs are small files that claim, or unfold to, far more than they are.
func bombs(t *testing.T) map[string][]byte {
	t.Helper()
	packed := func(head string, fill byte, n int) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(append([]byte(head), bytes.Repeat([]byte{fill}, n)...))
		must.OK(t, err)
		must.OK(t, z.Close())
		return b.Bytes()
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	w, err := z.Create("archive/data.pkl")
	must.OK(t, err)
	_, err = w.Write(append([]byte("\x80\x02"), bytes.Repeat([]byte("]"), 32<<20)...))
	must.OK(t, err)
	must.OK(t, z.Close())
	return map[string][]byte{
		"lists.pickle":       []byte("\x80\x02" + strings.Repeat("]", 3_000_000) + "."),
		"tuples.pickle":      []byte("\x80\x02)" + strings.Repeat("\x85", 3_000_000) + "."),
		"text.pickle":        append(binary.LittleEndian.AppendUint64([]byte("\x80\x02\x8e"), 1<<60), "x."...),
		"zeros.pickle.gz":    packed("", 0, 64<<20),
		"lists.pickle.gz":    packed("\x80\x02", ']', 32<<20),
		"lines.mrec.gz":      packed("memestimate recording 1\n", '\n', 32<<20),
		"archive.pickle.zip": archive.Bytes(),
	}
}

// A file that never ends, nests or unfolds is refused in one line, soon, by every command that reads files.
func TestBombs(t *testing.T) {
	dir := t.TempDir()
	honest := filepath.Join(dir, "honest.onnx")
	model, err := models.Open("conv_example")
	must.OK(t, err)
	write(t, honest, string(model))
	files := []string{honest + ".missing"}
	if _, err := os.Stat("/dev/zero"); err == nil {
		files = append(files, "/dev/zero")
	}
	for name, data := range bombs(t) {
		path := filepath.Join(dir, name)
		write(t, path, string(data))
		files = append(files, path)
	}
	commands := []string{"X", "table X", "fit X --gpu t4", "diff HONEST X", "diff X HONEST",
		"compare X HONEST", "compare HONEST X", "snapshot show X", "check --config X"}
	for _, file := range files {
		for _, command := range commands {
			refused(t, strings.NewReplacer("X", file, "HONEST", honest).Replace(command))
		}
	}
}

// What is never a stream is not waited for either: nobody writes to this pipe.
func TestPipesNobodyWrites(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	makePipe(t, pipe)
	refused(t, "check --config "+pipe)
}

// refused fails the test unless a command says in one line what is wrong with a file, and a hint at most.
func refused(t *testing.T, command string) {
	t.Helper()
	const soon = 10 * time.Second // where other programs keep the processors busy; it is a tenth of a second
	begin := time.Now()
	stdout, stderr, code := try(t, strings.Fields(command)...)
	lines := strings.Count(stderr, "\n")
	if code != exitInput || stdout != "" || lines < 1 || lines > 2 || len(stderr) > 1000 {
		t.Errorf("%s: code %d, stdout %.100q, stderr %.300q", command, code, stdout, stderr)
	}
	if took := time.Since(begin); took > soon {
		t.Errorf("%s: took %v", command, took)
	}
}
