// Package chromium finds the browser in which tests look at pages.
package chromium

import (
	"os"
	"os/exec"
	"testing"
)

// Path returns where Chromium is. Without it a test is skipped, except in CI, which installs it.
func Path(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
		"headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no Chromium: what pages do in a browser must be tested in CI")
	}
	t.Skip("no Chromium is installed: what pages do in a browser is not tested")
	return ""
}
