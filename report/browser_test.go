package report

import (
	"bytes"
	"context"
	"html"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	goldhtml "github.com/yuin/goldmark/renderer/html"

	"github.com/memestimate/memestimate/test/chromium"
	"github.com/memestimate/memestimate/test/must"
)

// rendered returns the document that a browser makes of Markdown, as GitHub renders it but with all its HTML let
// through, which GitHub would take away.
func rendered(t *testing.T, markdown []byte) string {
	t.Helper()
	browser := chromium.Path(t)
	var page bytes.Buffer
	page.WriteString("<!DOCTYPE html><meta charset=utf-8><title>as it was</title><body>")
	if err := goldmark.New(goldmark.WithExtensions(extension.GFM),
		goldmark.WithRendererOptions(goldhtml.WithUnsafe())).Convert(markdown, &page); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "page.html")
	must.Write(t, path, page.Bytes())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+path)
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("the browser does not run: %v", err)
	}
	return string(out)
}

// In a browser the comment of a diff is one table and one fold, with every hostile name shown as it is, and
// nothing that a name brought.
func TestDiffInBrowser(t *testing.T) {
	var b bytes.Buffer
	d := hostileDiff(2*len(hostile), 1)
	must.OK(t, DiffMarkdown(&b, d, MarkdownLimit))
	dom := rendered(t, b.Bytes())
	open, folded, ok := strings.Cut(dom, "<details>")
	if !ok || strings.Count(open, "<table>") != 1 || strings.Count(folded, "<table>") != 1 ||
		strings.Count(dom, "<details>") != 1 {
		t.Errorf("%d tables outside of the fold, %d inside", strings.Count(open, "<table>"), strings.Count(folded, "<table>"))
	}
	if tag := regexp.MustCompile(`<(a|img|script|iframe|input|style|svg)\b`).FindString(dom); tag != "" {
		t.Errorf("the page has a %s", tag)
	}
	if want := strings.Count(folded, "<tr>"); want != 1+len(d.Cases[0].Layers) {
		t.Errorf("%d rows for %d layers", want, len(d.Cases[0].Layers))
	}
	shown := html.UnescapeString(dom)
	for _, name := range hostile {
		if text := Short(name, cellName); !strings.Contains(shown, text) {
			t.Errorf("the page does not show %s", text)
		}
	}
}
