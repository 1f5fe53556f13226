package main

import (
	"bytes"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// What a file of source may have.
const (
	mostColumns = 120 // characters in a line, a tab counted as one
	mostLines   = 400 // of Go: what is longer holds two things
)

// Lines of Go, of Python and of prose in Markdown are short enough for two files side by side. Tables and code in
// Markdown, and what Go has in backquotes, may be wider: they are data that other programs read or wrote.
func TestColumns(t *testing.T) {
	const root = "../.."
	seen := map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && strings.HasPrefix(name, ".") || name == "testdata" ||
				name == "venv" || name == "build" || name == "dist" {
				return filepath.SkipDir
			}
			return nil
		}
		kind := filepath.Ext(path)
		if kind != ".go" && kind != ".py" && kind != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen[kind]++
		var wide map[int]bool
		switch kind {
		case ".go":
			wide = quotedLines(text)
		case ".md":
			wide = unwrappedLines(text)
		}
		if n := bytes.Count(text, []byte("\n")); kind == ".go" && n > mostLines {
			t.Errorf("%s: %d lines, wanted at most %d", path, n, mostLines)
		}
		for i, line := range strings.Split(string(text), "\n") {
			n := utf8.RuneCountInString(line)
			if n > mostColumns && !wide[i+1] && !strings.HasPrefix(line, "//go:") {
				t.Errorf("%s:%d: %d columns, wanted at most %d", path, i+1, n, mostColumns)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen[".go"] < 100 || seen[".py"] < 10 || seen[".md"] < 10 {
		t.Errorf("looked at %v files only", seen)
	}
}

// quotedLines are the lines of a Go file that a literal in backquotes is on.
func quotedLines(text []byte) map[int]bool {
	lines := map[int]bool{}
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok == token.STRING && lit[0] == '`' {
			for i := range 1 + strings.Count(lit, "\n") {
				lines[file.Line(pos)+i] = true
			}
		}
	}
}

// unwrappedLines are the lines of a page in Markdown that are no prose: tables, code, and words too long for a line.
func unwrappedLines(text []byte) map[int]bool {
	lines := map[int]bool{}
	code := false
	for i, line := range bytes.Split(text, []byte("\n")) {
		line := bytes.TrimSpace(line)
		fence := bytes.HasPrefix(line, []byte("```"))
		code = code != fence
		lines[i+1] = code || fence || bytes.HasPrefix(line, []byte("|")) || bytes.HasPrefix(line, []byte("<")) ||
			bytes.Count(line, []byte(" ")) == 0
	}
	return lines
}
