package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/memestimate/memestimate/cmd/memestimate/inherited"
)

// lookCommand finds the program that a command's first word means, as execvp(3) does, and gives
// env's exit codes where there is none: 127, or 126 when what is there cannot be run.
func lookCommand(name, path string) (string, error) {
	if name == "" {
		return "", fail(exitMissing, "%q: no such command", name)
	}
	places := []string{name}
	if !strings.ContainsRune(name, filepath.Separator) {
		places = places[:0]
		for _, dir := range filepath.SplitList(path) {
			if dir == "" {
				dir = "."
			}
			places = append(places, dir+string(filepath.Separator)+name)
		}
	}
	var why error
	for _, p := range places {
		st, err := os.Stat(p)
		switch {
		case err == nil && st.IsDir():
			err = syscall.EISDIR
		case err == nil && !runnable(p, st):
			err = fs.ErrPermission
		case err == nil:
			return p, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && why == nil {
			why = err
		}
	}
	if why != nil {
		return "", fail(exitCannot, "%s: cannot be run: %w", quoteArg(name), cause(why))
	}
	return "", fail(exitMissing, "%s: no such command", quoteArg(name))
}

// catchSignals lets the signals that end a program end the returned context instead. The function
// returned ends that, and says which signal came: 0 for none. Signals that the program was started
// to ignore stay ignored.
func catchSignals(ctx context.Context) (context.Context, func() int) {
	ctx, cancel := context.WithCancel(ctx)
	came := make(chan os.Signal, 1)
	notifyEnding(came)
	number := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-came:
			number = signalNumber(s)
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() int {
		signal.Stop(came) // after this a signal ends the process
		cancel()
		<-done
		select {
		case s := <-came:
			number = signalNumber(s)
		default:
		}
		return number
	}
}

// notifyEnding has the signals that end a program sent to a channel instead, but for those that it was started to
// ignore: nohup's stay ignored.
func notifyEnding(came chan<- os.Signal) {
	for _, s := range endingSignals {
		if !signal.Ignored(s) && !inherited.Ignored(signalNumber(s)) {
			signal.Notify(came, s)
		}
	}
}

func signalNumber(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return 1
}
