package budget

import "errors"

// Parse refuses: a page in a browser has no repository with a budget file, and YAML is half a megabyte of its program,
// of which the linker keeps every method.
func Parse(string, []byte) (*File, error) {
	return nil, errors.New("budget files are not read in a page")
}
