package budget

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Find returns the files below a folder that match a glob, sorted. * and ? stand for characters of one name,
// ** for any number of folders. Folders whose name begins with a dot are not looked into unless the glob names them.
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
		if _, err := fs.Stat(fsys, path.Clean(glob)); err != nil {
			return nil, err
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
			out = append(out, name)
		}
		return nil
	})
	slices.Sort(out)
	return out, err
}

// Matches reports whether a path matches a glob. A broken glob matches nothing.
func Matches(glob, name string) bool {
	return match(strings.Split(path.Clean(glob), "/"), strings.Split(name, "/"))
}

// match compares part by part. Several ** in a row are one, so that the time stays small.
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
