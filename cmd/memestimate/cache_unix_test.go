//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/must"
)

// What is run from the cache is this user's: a folder that others may write into, or that another user made, is not
// taken, and neither is one with files missing.
func TestCacheIsOwn(t *testing.T) {
	home := t.TempDir()
	e := &env{getenv: func(name string) string { return map[string]string{"XDG_CACHE_HOME": home}[name] }}
	cache := filepath.Join(home, "memestimate")
	if got := cacheFolder(e); got != cache {
		t.Fatalf("the cache is %q, want %q", got, cache)
	}
	p, err := unpackPython(e)
	must.OK(t, err)
	if filepath.Dir(filepath.Dir(p.folder)) != cache {
		t.Errorf("the package is in %s", p.folder)
	}
	some := filepath.Join(p.folder, "memestimate", "__main__.py")
	must.OK(t, os.Remove(some))
	again, err := unpackPython(e)
	must.OK(t, err)
	if again.folder != p.folder || !exists(some) {
		t.Errorf("%s is still missing, and the package is in %s", some, again.folder)
	}
	others := []func() error{func() error { return os.Chmod(cache, 0o777) }}
	if os.Geteuid() == 0 {
		others = append(others, func() error {
			if err := os.Chmod(cache, 0o700); err != nil {
				return err
			}
			return os.Chown(cache, 12345, 12345)
		})
	}
	for i, change := range others {
		must.OK(t, change())
		if got := cacheFolder(e); got != "" {
			t.Errorf("%d: the cache is %q", i, got)
		}
		p, err := unpackPython(e)
		must.OK(t, err)
		if filepath.Dir(filepath.Dir(p.folder)) == cache {
			t.Errorf("%d: the package is run from %s", i, p.folder)
		}
		p.delete()
		if exists(p.folder) {
			t.Errorf("%d: %s is left", i, p.folder)
		}
	}
}

// A pipe that nobody writes to, in the place of a configuration, is not waited for.
func TestPipeForAConfiguration(t *testing.T) {
	folder := t.TempDir()
	for _, path := range []string{filepath.Join(folder, configurationName), filepath.Join(folder, "model.json")} {
		must.OK(t, syscall.Mkfifo(path, 0o600))
	}
	done := make(chan bool, 3)
	go func() {
		done <- isConfiguration(folder)
		done <- isConfiguration(filepath.Join(folder, "model.json"))
		done <- configurationOf(&env{getenv: os.Getenv}, folder) != ""
	}()
	for range 3 {
		select {
		case is := <-done:
			if is {
				t.Error("a pipe is a configuration")
			}
		case <-time.After(time.Minute):
			t.Fatal("a pipe is waited for")
		}
	}
}
