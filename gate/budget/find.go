package budget

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Find returns the regular files below a folder that match a glob, sorted. * and ? stand for characters of one name,
// ** for any number of folders. Folders whose name begins with a dot are not looked into unless the glob names them.
// What matches and cannot be read to an end, a pipe or a device, is an error, and so is a link that leads nowhere.
func Find(fsys fs.FS, glob string) ([]string, error) {
	parts := strings.Split(path.Clean(glob), "/")
	fixed := 0
	for fixed < len(parts)-1 && !strings.ContainsAny(parts[fixed], `*?[\`) {
		fixed++
	}
	for _, p := range parts {
		if _, err := path.Match(p, ""); err != nil {
			return nil, err
		}
	}
	if !strings.ContainsAny(glob, `*?[\`) {
		if ok, err := isFile(fsys, path.Clean(glob)); err != nil || !ok {
			return nil, cmp.Or(err, fmt.Errorf("%s is a folder, want files, as in %s/**/*.onnx", glob, path.Clean(glob)))
		}
		return []string{path.Clean(glob)}, nil
	}
	root := path.Join(append([]string{"."}, parts[:fixed]...)...)
	deep := slices.Contains(parts, "**")
	var out []string
	err := fs.WalkDir(fsys, root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == root:
			return nil // no such folder, no files
		case err != nil:
			return err
		case name == root:
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") || !deep && strings.Count(name, "/")+1 >= len(parts)):
			return fs.SkipDir
		case !d.IsDir() && Matches(glob, name):
			ok, err := isFile(fsys, name)
			if ok {
				out = append(out, name)
			}
			return err
		}
		return nil
	})
	slices.Sort(out)
	return out, err
}

// isFile reports whether a name stands for a regular file rather than for a folder. All else is an error.
func isFile(fsys fs.FS, name string) (bool, error) {
	st, err := fs.Stat(fsys, name)
	switch {
	case err != nil:
		return false, err
	case st.IsDir():
		return false, nil
	case !st.Mode().IsRegular():
		return false, fmt.Errorf("%s is %s, want a file", name, irregular(st.Mode()))
	}
	return true, nil
}

func irregular(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "no regular file"
}

// Select returns those of some names, of files in a commit for one, that Find would find.
func Select(names []string, glob string) (out []string) {
	parts := strings.Split(path.Clean(glob), "/")
	for _, name := range names {
		folders := strings.Split(name, "/")
		folders = folders[:len(folders)-1]
		hidden := false
		for i, f := range folders {
			hidden = hidden || strings.HasPrefix(f, ".") && (i >= len(parts) || strings.ContainsAny(parts[i], `*?[\\`))
		}
		if name == path.Clean(glob) || !hidden && Matches(glob, name) {
			out = append(out, name)
		}
	}
	return out
}

// Matches reports whether a path matches a glob. A broken glob matches nothing.
func Matches(glob, name string) bool {
	return match(strings.Split(path.Clean(glob), "/"), strings.Split(name, "/"))
}

// match compares part by part. Several ** in a row are one, so that the time stays small. doublestar would be a
// dependency for these lines, and gives braces a meaning that budget files do not have.
func match(glob, name []string) bool {
	// reach[j] says whether the parts so far match name[:j].
	reach := make([]bool, len(name)+1)
	reach[0] = true
	for _, g := range glob {
		next := make([]bool, len(name)+1)
		for j := range reach {
			switch {
			case g == "**":
				next[j] = reach[j] || j > 0 && next[j-1]
			case j > 0 && reach[j-1]:
				ok, err := path.Match(g, name[j-1])
				next[j] = ok && err == nil
			}
		}
		reach = next
	}
	return reach[len(name)]
}
